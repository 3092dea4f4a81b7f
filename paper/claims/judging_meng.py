"""Judges of Meng's claims on F1, ε and ROC curves (from the experiments) and on the solver (from the benchmarks)."""

from __future__ import annotations

import re

from ..experiments.meng import epsilon as meng_epsilon
from ..experiments.meng import f1 as meng_f1
from ..experiments.meng import heads
from ..experiments.meng import roc as meng_roc
from ..report.statistics import paired
from .judging import FEWEST, NOT_RUN, TOO_FEW, Entries, Judge, Judgement, against_all, listed, verdict_of

#: A prediction follows the truth when the mean correlation is surely above this; below it, but surely positive: partly.
FOLLOWS = 0.7
#: A backward pass that costs at most this share of the forward pass is nearly free.
NEARLY_FREE = 0.1
#: Relative error of a program's value that a smaller program may have and still be a reasonable trade.
REASONABLE = 0.1


# ---------------------------------------------------------------- experiments


def f1_accuracy(entries: Entries) -> Judgement:
    """Accuracy of networks trained on the F1 program against cross-entropy's, all decided at 0."""
    gaps = {
        name: meng_f1.difference(entries, name, "accuracy")
        for name in (meng_f1.PROGRAM, meng_f1.PROGRAM + meng_f1.WARM, meng_f1.FREE, meng_f1.FREE + meng_f1.WARM)
    }
    tuned = meng_f1.difference(entries, meng_f1.PROGRAM, "accuracy, tuned")
    f1 = meng_f1.difference(entries, meng_f1.PROGRAM, "f1, tuned")
    text = "accuracy − cross-entropy: " + "; ".join(f"{name} {gap}" for name, gap in gaps.items())
    text += f"; with tuned thresholds, {meng_f1.PROGRAM}: accuracy {tuned}, F1 {f1} ({f1.pairs} runs)"
    verdict = verdict_of(gaps[meng_f1.PROGRAM])
    warm = any(gap.verdict == "better" for gap in gaps.values())
    return Judgement(text, "partly confirmed: not from scratch" if verdict == "not confirmed" and warm else verdict)


def f1_trap(entries: Entries) -> Judgement:
    """Which methods end at the all-positive answer; the claim is that the paper's does not and that its rivals do."""
    counts = {name: meng_f1.trapped(entries, name) for name in meng_f1.methods_of(entries)}
    rivals = [name for name in meng_f1.RIVALS if name in counts]
    runs = {name: len(meng_f1.having(entries, name)) for name in counts}
    some = {name: "" if runs[name] == len(entries) else f" of {runs[name]}" for name in counts}
    text = f"runs of {len(entries)} that end there: "
    text += ", ".join(f"{name} {count}{some[name]}" for name, count in counts.items())
    share = entries_mean(entries, meng_f1.PLAIN, "f1, tuned", "positive")
    text += f"; at its F1-best threshold cross-entropy itself decides {share:.0%} positive; test accuracy and F1 at 0: "
    text += ", ".join(_accuracy_and_f1(entries, name) for name in (meng_f1.PLAIN, meng_f1.PROGRAM, *rivals))
    text += f". {meng_f1.absent(entries)}" if meng_f1.absent(entries) else ""
    if len(entries) < FEWEST:
        return Judgement(text, TOO_FEW)
    if not any(counts.values()):
        return Judgement(text, "not confirmed")
    # "End there": half of the runs do, or more (in the paper, three sets of four). "Stays out": none does.
    tried = [name for name in rivals if runs[name] >= FEWEST]
    spared = [name for name in tried if counts[name] < runs[name] / 2]
    against = ["the program falls into it as well"] if counts[meng_f1.PROGRAM] > 0 else []
    against += [f"{' and '.join(spared)} mostly {'do' if len(spared) > 1 else 'does'} not"] if spared else []
    against += [] if len(tried) == len(meng_f1.RIVALS) else ["its rivals were not all run often enough"]
    return Judgement(
        text, "partly confirmed: the trap is there, but " + ", and ".join(against) if against else "confirmed"
    )


def _accuracy_and_f1(entries: Entries, name: str) -> str:
    """Of a method; where it has fewer runs than the others, with cross-entropy's in the same runs."""
    mine = meng_f1.having(entries, name)
    accuracy, f1 = (entries_mean(mine, name, reading, "test") for reading in ("accuracy", "f1"))
    same = "" if len(mine) == len(entries) else f" (in the same runs {_accuracy_and_f1(mine, meng_f1.PLAIN)})"
    return f"{name} {accuracy:.3f}, {f1:.3f}{same}"


def entries_mean(entries: Entries, method: str, reading: str, key: str) -> float:
    values = [float(entry["result"][method][reading][key]) for entry in meng_f1.having(entries, method)]
    return sum(values) / len(values)


def f1_predicted(entries: Entries) -> Judgement:
    """Correlation over the steps of a run between the program's F1 and the true F1 of the same batches."""
    parts, verdicts = [], []
    for name in (meng_f1.PROGRAM, meng_f1.PROGRAM + meng_f1.WARM, meng_f1.FREE, meng_f1.PLAIN):
        found = meng_f1.predictions(entries, name, "correlation")
        mean = paired(found, [0.0] * len(found))
        gap = meng_f1.predictions(entries, name, "gap")
        label = f"{name} (watched)" if name == meng_f1.PLAIN else name
        parts.append(f"{label} {mean.mean:.2f} [{mean.low:.2f}, {mean.high:.2f}], below the truth by {_mean(gap):.2f}")
        verdicts.append(mean)
    text = "correlation: " + "; ".join(parts)
    if verdicts[0].pairs < FEWEST:
        return Judgement(text, TOO_FEW)
    if all(mean.low > FOLLOWS for mean in verdicts):
        return Judgement(text, "confirmed")
    if all(mean.low > 0 for mean in verdicts):
        return Judgement(text, f"partly confirmed: correlated, not above {FOLLOWS} throughout")
    return Judgement(text, "not confirmed")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def epsilon_table(entries: Entries) -> Judgement:
    """AUC at 0.1 and at 0.001 against 0.01; judged by the paper's scheme with ε as the margin, others shown."""
    parts, verdicts = [], []
    for scheme in meng_epsilon.SCHEMES:
        low, high = (meng_epsilon.difference(entries, (scheme, e), (scheme, 0.01)) for e in (0.001, 0.1))
        parts.append(f"{scheme}: 0.1 {high}, 0.001 {low}")
        verdicts.append((high, low))
    text = "AUROC − that at 0.01: " + "; ".join(parts) + f" ({verdicts[0][0].pairs} seeds)"
    if min(gap.pairs for gaps in verdicts for gap in gaps) < FEWEST:
        return Judgement(text, TOO_FEW)
    worse = [gap.verdict == "worse" for gap in verdicts[0]]
    if all(worse) and verdicts[0][1].mean < verdicts[0][0].mean:
        return Judgement(text, "confirmed")
    named = [f"{epsilon:g}" for epsilon, one in zip((0.1, 0.001), worse, strict=True) if one]
    return Judgement(text, f"partly confirmed: worse at {' and '.join(named)} only" if named else "not confirmed")


def roc_above(entries: Entries) -> Judgement:
    """The paper's loss against cross-entropy: area, and the curve at three rates; against balanced batches as well."""
    plain = meng_roc.gaps(entries, meng_roc.RAMP, meng_roc.PLAIN)
    hinge = meng_roc.gaps(entries, meng_roc.HINGE, meng_roc.PLAIN)
    fair = meng_roc.gaps(entries, meng_roc.RAMP, meng_roc.BALANCED)
    text = f"{meng_roc.RAMP} − cross-entropy: " + ", ".join(f"{where} {gap}" for where, gap in plain.items())
    text += f"; area − balanced batches {fair['area']}; {meng_roc.HINGE}: area − cross-entropy {hinge['area']}"
    text += f" ({plain['area'].pairs} seeds)"
    verdicts = [gap.verdict for gap in plain.values()]
    if plain["area"].pairs < FEWEST:
        return Judgement(text, TOO_FEW)
    if all(verdict == "better" for verdict in verdicts):
        above = fair["area"].verdict == "better"
        return Judgement(text, "confirmed" if above else "partly confirmed: not against balanced batches")
    return Judgement(text, "partly confirmed: not everywhere" if "better" in verdicts else "not confirmed")


# ---------------------------------------------------------------- benchmarks


def batch_growth(entries: Entries) -> Judgement:
    """Time of both passes by batch size, ours and a black-box solver's, on one core."""
    first, last = entries[0], entries[-1]
    if first is last:
        return Judgement("", NOT_RUN)
    ours, box = (_both(last, who) / _both(first, who) for who in ("ours", "black box"))
    batches = f"batch {first['batch']} → {last['batch']}"
    text = f"{batches}: ours {ours:.0f} times the time, black box on scipy {box:.0f} times; "
    text += f"black box / ours at batch {last['batch']}: {last['black box / ours, both passes']}"
    if ours < 2:
        return Judgement(text, "confirmed")
    better = ours < box / 2
    return Judgement(
        text, "partly confirmed: it grows, but more slowly than the black box's" if better else "not confirmed"
    )


def _both(row: dict[str, str], who: str) -> float:
    """Milliseconds of the forward and the backward pass of one row of ``lp_blackbox``."""
    return sum(float(value) for key, value in row.items() if key.startswith(who) and key.endswith("ms"))


def backward_cost(entries: Entries) -> Judgement:
    """What backward costs when forward costs 1, rule by rule; the paper's own rule is the active set's."""
    costs = {row["method"]: float(row["backward, forward = 1"]) for row in entries}
    text = "backward, forward = 1: " + "; ".join(f"{name} {cost:g}" for name, cost in costs.items())
    dear = [name.removeprefix("aimfor, ") for name, cost in costs.items() if "aimfor" in name and cost > NEARLY_FREE]
    if any("active" in name for name in dear):
        return Judgement(text, "not confirmed")
    return Judgement(text, f"confirmed: for the paper's rule, not for {', '.join(dear)}" if dear else "confirmed")


def reduction(entries: Entries) -> Judgement:
    """Error of the value of a program with fewer rows, by the share of rows that are kept."""
    errors = {}
    for row in entries:
        kept, of = (int(number) for number in re.findall(r"\d+", row["rows kept"]))
        found = [float(value) for key, value in row.items() if key.startswith("value error, reduced program")]
        errors[kept / of] = min(found)
    text = "error of the value, best of three reductions: "
    text += "; ".join(f"{share:.0%} of the rows {error:.0%}" for share, error in errors.items())
    text += "; a reduced Hessian with the exact gradient: none, for more steps"
    quarter, half = (min(error for share, error in errors.items() if share <= most) for most in (0.25, 0.5))
    if quarter <= REASONABLE:
        return Judgement(text, "confirmed")
    partly = f"partly confirmed: within {REASONABLE:.0%} from half of the rows on"
    return Judgement(text, partly if half <= REASONABLE else "not confirmed")


def sparse_memory(entries: Entries) -> Judgement:
    """How many times less memory the sparse program takes, on the host."""
    dense = next(row for row in entries if row["rows"].startswith("dense"))
    rest = [row for row in entries if row is not dense]
    key = "peak extra memory, MB"
    ratios = {row["rows"]: float(dense[key]) / float(row[key]) for row in rest}
    text = f"dense {dense[key]} MB for the matrix alone; "
    text += "; ".join(f"{row['rows']} {row[key]} MB ({ratios[row['rows']]:.0f} times less)" for row in rest)
    sparse = next(ratio for name, ratio in ratios.items() if name.startswith("sparse"))
    return Judgement(text, "confirmed: on the host" if sparse >= 10 else "not confirmed")


# ---------------------------------------------------------------- Theorem 2, reduced programs, heads on features


def short_steps(entries: Entries) -> Judgement:
    """The shortest step must solve every program; what full steps do is told beside it."""
    names = [name for name in entries[0] if name.startswith("λ")]
    total = sum(int(row["programs"]) for row in entries)
    solved = {name: sum(int(row[name]) for row in entries) for name in names}
    text = f"of {total} programs solved: " + ", ".join(f"{name} {count}" for name, count in solved.items())
    shortest = solved[names[-1]]
    if shortest == total:
        return Judgement(text, "confirmed")
    return Judgement(text, "partly confirmed: on most programs" if 2 * shortest > total else "not confirmed")


def newton_or_descent(entries: Entries) -> Judgement:
    """The best step of Newton's method against gradient descent, on the same programs."""
    names = [name for name in entries[0] if name.startswith("λ")]
    slow = next(name for name in entries[0] if name.startswith("gradient descent"))
    best = max(names, key=lambda name: sum(int(row[name]) for row in entries))
    counts = [(int(row[best]), int(row[slow])) for row in entries]
    text = f"programs solved, Newton at {best} against {slow}: " + ", ".join(f"{a} and {b}" for a, b in counts)
    return Judgement(text, "confirmed" if all(a > b for a, b in counts) else "not confirmed")


def perturbed_costs(entries: Entries) -> Judgement:
    """Confirmed where some noise makes every optimum unique; what the scheme then does is part of the answer."""
    by_noise: dict[str, list[dict[str, str]]] = {}
    for row in entries:
        by_noise.setdefault(str(row["noise on c"]), []).append(row)
    said, enough = [], []
    for noise, rows in by_noise.items():
        unique, scheme = (
            [row[key].split(" of ") for row in rows] for key in ("unique", "plain scheme, λ = 0.05, converged")
        )
        found, of = (sum(int(pair[side]) for pair in unique) for side in (0, 1))
        ended = sum(int(pair[0]) for pair in scheme)
        lost = max(float(row["its own value lost, largest"]) for row in rows)
        said.append(f"noise {noise}: unique {found} of {of}, value lost {lost:.0e}, the scheme converges on {ended}")
        enough += [noise] if found == of else []
    return Judgement("; ".join(said), "confirmed" if enough else "not confirmed")


def auc_reduction(entries: Entries) -> Judgement:
    """The paper's trade on the AUC program: a quarter of the pairs, or fewer directions, within `REASONABLE`."""
    key, said, kept = "objective above the optimum", [], []
    for row in entries:
        if row["program"].startswith("100%"):
            continue
        size, excess = row["pairs, or directions"], row[key]
        said.append(f"{row['data']}, {row['program']} ({size}): {excess}, AUROC {row['AUROC of other rows, points']}")
        if row["program"].startswith("25%"):
            kept.append(float(excess.rstrip("%")) / 100)
    good = sum(one <= REASONABLE for one in kept)
    verdict = "confirmed" if good == len(kept) else f"partly confirmed: on {good} of {len(kept)}" if good else ""
    return Judgement(f"{key}: " + "; ".join(said), verdict or "not confirmed")


def heads_against(metric: str, rivals: tuple[str, ...], scarce: bool = False) -> Judge:
    """The paper's loss on frozen features against each rival, paired over cells."""

    def judge(entries: Entries) -> Judgement:
        ours = heads.differences(entries, metric, heads.MENG, scarce)
        gaps = {name: paired(ours, heads.differences(entries, metric, name, scarce)) for name in rivals}
        seeds = len({entry["cell"]["seed"] for entry in entries})
        return against_all(f"{listed(gaps)} ({len(ours)} cells, {seeds} seeds)", gaps.values(), len(ours))

    return judge
