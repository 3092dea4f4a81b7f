"""What a claim is, and the judges that turn cached results into numbers and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..report.statistics import Paired, paired, paired_by_seed

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


Judge = Callable[[Entries], Judgement]


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Attributes:
        paper: Which of the four.
        where: Section, table or figure.
        claim: What it says, with its own numbers.
        setting: What we ran instead.
        distance: How far that is from the paper's: network, pretraining, data, iterations, optimizer.
        near: Whether it is near enough for a failure to speak of the claim; fixed before the run.
        experiment: Whose results judge it.
        judge: From those results to a judgement.
    """

    paper: str
    where: str
    claim: str
    setting: str
    experiment: str
    judge: Judge
    distance: str
    near: bool = False

    def judged(self, results: dict[str, Entries]) -> Judgement:
        entries = results.get(self.experiment, [])
        if not entries:
            return Judgement("", NOT_RUN)
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


def listed(differences: Mapping[str, Paired]) -> str:
    """The differences from each rival, as a page says them."""
    return "; ".join(f"− {other} {difference}" for other, difference in differences.items())


def against_all(text: str, differences: Iterable[Paired], runs: int) -> Judgement:
    """Confirmed where every difference is above zero, in part where some are."""
    better = [difference.verdict == "better" for difference in differences]
    if runs < FEWEST:
        return Judgement(text, TOO_FEW)
    return Judgement(text, "confirmed" if all(better) else "partly confirmed" if any(better) else "not confirmed")


def by_seed(entries: Entries, wanted: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Results of the cells with these settings, by their seed."""
    cells = [(entry["cell"], entry["result"]) for entry in entries]
    return {cell["seed"]: result for cell, result in cells if wanted.items() <= cell.items()}


# ---------------------------------------------------------------- judges


def meng_against(metric: str, method: str, among: Callable[[dict[str, Any]], bool] = lambda cell: True) -> Judge:
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


def song_gap(task: str, method: str, others: tuple[str, ...]) -> Judge:
    """A method's final average precision against each of the others, over paired seeds."""

    def final(entries: Entries, name: str) -> dict[int, float]:
        wanted = {"task": task, "method": name}
        return {seed: found["test_ap"][-1] for seed, found in by_seed(entries, wanted).items()}

    def judge(entries: Entries) -> Judgement:
        ours = final(entries, method)
        gaps = {other: paired_by_seed(ours, final(entries, other)) for other in others}
        return against_all(f"{method} {listed(gaps)}", gaps.values(), min(gap.pairs for gap in gaps.values()))

    return judge


def equivalent(judge: Judge, margin: float) -> Judge:
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
