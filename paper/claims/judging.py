"""What a claim is, and the judges that turn cached results into numbers and a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..report.statistics import Paired, paired

Entries = list[dict[str, Any]]

NOT_RUN = "not run yet"
NOT_HERE = "not testable here"
CONFIRMED, REFUTED = "confirmed", "not confirmed at the paper's setting"
TOO_FEW = f"{NOT_RUN}: too few seeds"


@dataclass(frozen=True)
class Judgement:
    """Our numbers and what they say."""

    numbers: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Attributes:
        paper: Which of the four.
        where: Section, table or figure.
        claim: What it says, with its own numbers.
        setting: What we ran instead, or why nothing can be run.
        distance: How far that is from the paper's: network, pretraining, data, iterations, optimizer.
        near: Whether it is near enough for a failure to speak of the claim; fixed before the run.
        experiment: Whose results judge it; "" when none does.
        judge: From those results to a judgement; None when none does.
        otherwise: The verdict when there are no results.
    """

    paper: str
    where: str
    claim: str
    setting: str
    experiment: str = ""
    judge: Callable[[Entries], Judgement] | None = None
    otherwise: str = NOT_RUN
    distance: str = "none that matters"
    near: bool = False

    def judged(self, results: dict[str, Entries]) -> Judgement:
        entries = results.get(self.experiment, [])
        if self.judge is None or not entries:
            return Judgement("", self.otherwise)
        try:
            found = self.judge(entries)
        except (KeyError, ValueError):  # results of another shape or only part of the cells
            return Judgement("", NOT_RUN)
        return Judgement(found.numbers, self._verdict(found.verdict))

    def _verdict(self, found: str) -> str:
        """One of three, with what there is to add: a claim that holds in part is not confirmed."""
        if found.split(":")[0] in (CONFIRMED, NOT_RUN, NOT_HERE):
            return found
        word, _, more = found.partition(": ")
        part = ["in part"] if word.startswith("partly") else []
        detail = ", ".join([*part, *([more] if more else [])])
        verdict = REFUTED if self.near else NOT_HERE
        return f"{verdict}: {detail}" if detail else verdict


#: With fewer pairs an interval says nothing, and neither do we.
FEWEST = 3


def verdict_of(difference: Paired) -> str:
    if difference.pairs < FEWEST:
        return TOO_FEW
    return {"better": "confirmed", "worse": "not confirmed", "no difference": "not confirmed"}[difference.verdict]


# ---------------------------------------------------------------- judges


def meng_against(
    metric: str, method: str, among: Callable[[dict[str, Any]], bool] = lambda cell: True
) -> Callable[[Entries], Judgement]:
    """The paper's method from scratch against plain cross-entropy and against balanced batches."""

    def judge(entries: Entries) -> Judgement:
        inside = [entry["result"][metric] for entry in entries if among(entry["cell"])]
        ours = [found["papers"][method] for found in inside]
        plain = paired(ours, [found["rivals"]["cross-entropy"] for found in inside])
        fair = paired(ours, [found["rivals"]["balanced batches"] for found in inside])
        text = f"− cross-entropy {plain}; − balanced batches {fair} ({plain.pairs} runs)"
        if plain.pairs >= FEWEST and plain.verdict == "better" and fair.verdict != "better":
            return Judgement(text, "partly confirmed: not against balanced batches")
        return Judgement(text, verdict_of(plain))

    return judge


def song_gap(task: str, method: str, others: tuple[str, ...], key: str = "test_ap") -> Callable[[Entries], Judgement]:
    """A method's final value against each of the others, over paired seeds."""

    def final(entries: Entries, name: str) -> dict[int, float]:
        return {
            entry["cell"]["seed"]: entry["result"][key][-1]
            for entry in entries
            if entry["cell"]["task"] == task and entry["cell"]["method"] == name
        }

    def judge(entries: Entries) -> Judgement:
        ours, gaps = final(entries, method), {}
        for other in others:
            theirs = final(entries, other)
            seeds = sorted(ours.keys() & theirs.keys())
            gaps[other] = paired([ours[s] for s in seeds], [theirs[s] for s in seeds])
        text = "; ".join(f"− {other} {gap}" for other, gap in gaps.items())
        if min(gap.pairs for gap in gaps.values()) < FEWEST:
            return Judgement(f"{method} {text}", TOO_FEW)
        verdicts = [gap.verdict for gap in gaps.values()]
        if all(verdict == "better" for verdict in verdicts):
            return Judgement(f"{method} {text}", "confirmed")
        return Judgement(f"{method} {text}", "partly confirmed" if "better" in verdicts else "not confirmed")

    return judge


def s_mnist_gap(model: str, ours: tuple[float, str], theirs: tuple[float, str]) -> Callable[[Entries], Judgement]:
    """Final accuracy of one (α, mode) against another, over paired seeds."""

    def final(entries: Entries, wanted: tuple[float, str]) -> dict[int, float]:
        return {
            e["cell"]["seed"]: e["result"]["accuracy"][-1]
            for e in entries
            if e["cell"]["model"] == model and (e["cell"]["alpha"], e["cell"]["mode"]) == wanted
        }

    def judge(entries: Entries) -> Judgement:
        a, b = final(entries, ours), final(entries, theirs)
        seeds = sorted(a.keys() & b.keys())
        gap = paired([a[s] for s in seeds], [b[s] for s in seeds])
        return Judgement(f"difference in accuracy {gap} ({gap.pairs} seeds)", verdict_of(gap))

    return judge


def equivalent(judge: Callable[[Entries], Judgement], margin: float) -> Callable[[Entries], Judgement]:
    """For claims that something cheaper is as good: confirmed when the whole interval is within ± ``margin``.

    Few runs have wide intervals, and confirm nothing; outside the margin altogether it is refuted.
    """

    def judged(entries: Entries) -> Judgement:
        found = judge(entries)
        return Judgement(f"{found.numbers}, margin ± {margin:g}", as_good(found.numbers, margin))

    return judged


def as_good(text: str, margin: float) -> str:
    """The verdict on the last interval "[low, high]" in the text."""
    low, high = (float(end) for end in text.rsplit("[", 1)[1].split("]")[0].split(", "))
    if -margin < low and high < margin:
        return CONFIRMED
    sure = high <= -margin or low >= margin
    return "not confirmed" if sure else f"{NOT_HERE}: the interval is wider than the margin"


def step_time(entries: Entries) -> Judgement:
    """How many times cross-entropy's step ours takes, from the recorded benchmark."""
    rows = [row for row in entries if row["loss"] == "AUROC"]
    text = "; ".join(f"{row['ratio']} times ({row['network']}, batch {row['batch']})" for row in rows)
    worst = max(float(row["ratio"]) for row in rows)
    return Judgement(text, "not confirmed: it costs far less" if worst < 2 else "confirmed")
