"""Checks of the data: files, examples, overlap of splits, labels, filters, tokenizers, lengths, stored data."""

import json
from pathlib import Path

import numpy as np

from regard.data.examples import Example
from regard.data.formats import describe_sources
from regard.data.store import damaged_files
from regard.doctor.check import STATUSES, Check, Status, grade, judge
from regard.doctor.sample import DryRun, SplitSurvey, Survey
from regard.recipe import Recipe
from regard.run_files import MANIFEST, SPLITS
from regard.tasks.base import AnyTask
from regard.tasks.operations import open_store
from regard.viz.content import truncate

HELD_OUT = ("valid", "test")
MAX_CHARACTERS = 20_000
"""Characters of a text whose words are counted: one line of megabytes says nothing about the others."""
MAX_CHECKED = 2_000
"""Examples of a split that are tokenised for a check: more do not change a share that matters."""
MAX_OVERLAP = 0.05
"""Share of valid or test that may occur in train: short texts ("Thank you.") rightly occur in every split."""
DROPPED_WARN, DROPPED_FAIL = 0.2, 0.5
UNKNOWN_WARN, UNKNOWN_FAIL = 0.02, 0.2
"""Share of words that are [UNK]: their content is lost."""
BYTES_WARN, BYTES_FAIL = 0.05, 0.3
"""Share of words that are spelled in single bytes: they are long, but nothing is lost."""
MAX_TOKENS_PER_WORD = 4.0
MAX_LONG_INPUTS = {"split": 0.01, "truncated": 0.1, "read in windows": 1.0}
"""Share of inputs beyond the maximum length, by what happens to them."""
MIN_EXAMPLES_OF_CLASS = 5
MAX_MAJORITY = 0.9
MAX_SHOWN_CHARACTERS, MAX_SHOWN_LABELS = 60, 8
FILTER_REMEDIES = {
    "empty": "find out why so many lines are empty",
    "too_long": "raise data.max_length, split long lines, or raise text.vocab_size",
    "ratio": "check that line n of one file translates line n of the other; otherwise raise data.max_ratio",
    "identical": "check that both sides are not in the same language; otherwise write data.drop_identical=false",
    "duplicate": "find out why the files repeat themselves; write data.drop_duplicates=false to keep intended copies",
    "also in valid or test": "take valid and test from other texts than train",
}


def check_files(recipe: Recipe, surveyed: Survey) -> Check:
    """Every split has examples; a damaged file was reported before."""
    read = {split: surveyed.splits[split] for split in SPLITS}
    counts = ", ".join(f"{split} {part.examples + part.unread:,}" for split, part in read.items())
    sources = [source for split in SPLITS for source in getattr(recipe.data, split)]
    finding = "\n".join([f"examples: {counts}", *describe_sources(sources, recipe.data.folder, recipe.fields)])
    missing = [split for split in ("train", "valid") if not read[split].examples]
    if missing:
        remedy = f"name examples for {' and '.join(missing)}: {', '.join(f'data.{split}=...' for split in missing)}"
        return Check("files", "fail", finding, remedy)
    if not surveyed.complete:
        part = "a sample of them" if surveyed.counted else "only the beginning of each file"
        return Check("files", "pass", f"{finding}; {part} was read (--quick)")
    if not read["test"].examples:
        remedy = "set data.test or data.hold_out_test: examples for the final score, which training does not use"
        return Check("files", "warn", finding, remedy)
    return Check("files", "pass", finding)


def show_examples(task: type[AnyTask], surveyed: Survey) -> Check:
    """Show the first example of each split: only a person sees exchanged files or wrong columns."""
    lines = [f"{split}: {_shown(task, samples[0])}" for split, samples in surveyed.samples.items() if samples]
    return Check("examples", "pass", "the first example of each split\n" + "\n".join(lines))


def _shown(task: type[AnyTask], example: Example) -> str:
    fields = task.recipe_type.fields
    texts, target = task.checks.texts(fields, example), fields.target
    inputs = " | ".join(truncate(text, MAX_SHOWN_CHARACTERS) for text in texts["source"])
    if "target" in texts:
        return f"{inputs} -> {truncate(' '.join(texts['target']), MAX_SHOWN_CHARACTERS)}"
    label = truncate(json.dumps(example.get(target), ensure_ascii=False), MAX_SHOWN_CHARACTERS)
    return f"{inputs} -> {label}" if target else inputs


def check_overlap(recipe: Recipe, surveyed: Survey) -> Check:
    """Examples of valid and test do not occur in train: otherwise their score measures memory."""
    shares = {split: len(surveyed.overlap[split]) / len(keys) for split, keys in surveyed.held_out.items() if keys}
    findings = [
        f"{len(surveyed.overlap[split]):,} of {len(surveyed.held_out[split]):,} distinct examples of {split} "
        f"({share:.1%}) occur in train" + (f", first at number {surveyed.first_overlap[split]:,}" if share else "")
        for split, share in shares.items()
    ]
    finding = "; ".join(findings) or "there is nothing to compare"
    finding += "" if surveyed.complete else " (among the examples that --quick reads)"
    separate = "write data.exclude_overlap=true, which leaves them out of train"
    remedy = separate if hasattr(recipe.data, "exclude_overlap") else "remove them from the training files"
    return judge("overlap", grade(max(shares.values(), default=0.0), 0.0, MAX_OVERLAP), finding, remedy)


def check_labels(task: type[AnyTask], surveyed: Survey) -> Check:
    """There are several classes, each frequent enough to be learnt, and none only in valid or test."""
    name, train, checks = "labels", surveyed.splits["train"], task.checks.label_checks
    if train.numbers:
        return _check_numbers(train)
    counts, total = train.labels, train.labels.total()
    shares = ", ".join(f"{label} {count / total:.0%}" for label, count in counts.most_common(MAX_SHOWN_LABELS))
    finding = f"{len(counts)} in train: {shares}{', …' if len(counts) > MAX_SHOWN_LABELS else ''}"
    unseen = {split: sorted(set(surveyed.splits[split].labels) - set(counts)) for split in HELD_OUT}
    if "unseen" in checks and any(unseen.values()):
        names = "; ".join(f"{split}: {', '.join(labels[:5])}" for split, labels in unseen.items() if labels)
        return Check(name, "fail", f"{finding}\nnot in train, but in {names}", "use the same names in all files")
    if "one-class" in checks and len(counts) < 2:
        return Check(name, "fail", finding, "one class cannot be learnt: check the column of labels")
    rare = [label for label, count in counts.items() if count < MIN_EXAMPLES_OF_CLASS]
    if "rare" in checks and rare:
        finding = f"{finding}; {len(rare)} have fewer than {MIN_EXAMPLES_OF_CLASS} examples"
        return Check(name, "warn", finding, f"collect more examples of, or merge: {', '.join(rare[:5])}")
    label, count = counts.most_common(1)[0]
    if "majority" in checks and count > MAX_MAJORITY * total:
        finding = f"{finding}; a model that always predicts {label!r} is right in {count / total:.0%}"
        return Check(name, "warn", finding, "accuracy says little: write training.monitor=f1 or matthews")
    return Check(name, "pass", finding)


def _check_numbers(train: SplitSurvey) -> Check:
    values = np.array(train.numbers)
    finding = f"from {values.min():g} to {values.max():g}, mean {values.mean():.2f}, variance {values.var():.2f}"
    return judge(
        "labels", "pass" if values.std() else "fail", finding, "all numbers are equal: check the column of labels"
    )


def check_plausibility(task: type[AnyTask], surveyed: Survey) -> Check | None:
    """Targets belong to their sources, and labels to their texts. None if the task has no such test."""
    warnings = task.checks.data_warnings(surveyed.samples)
    if warnings is None:
        return None
    status: Status = "fail" if any(item.fatal for item in warnings) else "warn" if warnings else "pass"
    finding = "\n".join(item.problem for item in warnings) or "no sign of shuffled, exchanged or copied examples"
    return judge("plausibility", status, finding, "\n".join(item.remedy for item in warnings))


def check_filters(dry: DryRun) -> Check | None:
    """Filters drop few training examples. None if the task has no filters."""
    train, recipe = dry.survey.splits["train"], dry.recipe
    counts = dry.task.checks.filter_counts(open_store(dry.task, dry.run.folder, "train"))
    if not counts and not dry.survey.dropped:
        return None
    shares = {reason: count / max(1, len(train.sample)) for reason, count in counts.items()}
    if len(train.sample) < train.examples and getattr(recipe.data, "drop_duplicates", False):
        shares["duplicate"] = dry.survey.duplicates / train.examples  # copies seldom meet in a sample
    read = train.examples + sum(dry.survey.dropped.values())
    for reason, count in dry.survey.dropped.items():
        shares[reason] = shares.get(reason, 0.0) + count / max(1, read)
    dropped = min(1.0, sum(shares.values()))
    reasons = ", ".join(f"{reason.replace('_', ' ')} {share:.1%}" for reason, share in shares.items() if share)
    finding = f"{dropped:.1%} of the training examples are dropped{': ' + reasons if reasons else ''}"
    finding += f" (in a sample of {len(train.sample):,})" if len(train.sample) < train.examples else ""
    reason = max(shares, key=shares.__getitem__)
    return judge("filters", grade(dropped, DROPPED_WARN, DROPPED_FAIL), finding, FILTER_REMEDIES[reason])


def check_tokenizer(dry: DryRun) -> Check:
    """Words of the validation data have few tokens, and few are [UNK] or spelled in bytes."""
    name, task = "tokenizer", dry.task
    split = "valid" if dry.survey.splits["valid"].sample else "train"
    examples = [task.checks.texts(task.recipe.fields, example) for example in list(task.read(split))[:MAX_CHECKED]]
    findings, max_tokens = [], 0.0
    worst: Status = "pass"
    for sequence, tokenizer in task.tokenizers.items():
        texts = [text[:MAX_CHARACTERS] for sides in examples for text in sides[sequence]]
        unknown, words = (sum(counts) for counts in zip(*map(tokenizer.count_unknown_words, texts), strict=True))
        tokens = sum(map(len, tokenizer.encode_batch(texts)))
        lossy = hasattr(tokenizer, "unk")
        share, ratio = unknown / max(1, words), tokens / max(1, words)
        bounds = (UNKNOWN_WARN, UNKNOWN_FAIL) if lossy else (BYTES_WARN, BYTES_FAIL)
        worst, max_tokens = max(worst, grade(share, *bounds), key=STATUSES.index), max(max_tokens, ratio)
        kind = "are [UNK]" if lossy else "are spelled in bytes"
        findings.append(f"{sequence}: {len(tokenizer):,} tokens, {ratio:.2f} per word, {share:.1%} of the words {kind}")
    finding = f"in {split}: " + "; ".join(findings)
    larger = "start from another run" if dry.recipe.start_from else "raise text.vocab_size, lower text.min_frequency"
    if worst != "pass":
        remedy = f"check that train and valid are in the same language and script; if so, {larger}, or add text"
        return judge(name, worst, finding, remedy)
    if max_tokens > MAX_TOKENS_PER_WORD:
        return Check(name, "warn", finding, f"sequences become long: {larger}")
    return Check(name, "pass", finding)


def check_inputs(dry: DryRun) -> Check | None:
    """What the task says about the inputs that it makes of the tokenised data; None if it says nothing."""
    checked = dry.task.checks.check_store(dry.task, dry.store)
    if checked is None:
        return None
    finding, advice = checked
    remedy = "\n".join(item.remedy for item in advice)
    return judge(
        "inputs", "warn" if advice else "pass", "\n".join([finding, *(item.problem for item in advice)]), remedy
    )


def check_lengths(dry: DryRun) -> Check:
    """Few inputs are longer than the model was trained for."""
    task, checks = dry.task, dry.task.checks
    limit = checks.max_length(task)
    assert limit is not None
    splits = HELD_OUT if checks.long_inputs == "split" else SPLITS  # others are dropped from train: see filters
    lengths = {
        split: np.array([checks.input_length(task, example) for example in list(task.read(split))[:MAX_CHECKED]])
        for split in splits
        if dry.survey.splits[split].sample
    }
    shares = {split: float((values > limit).mean()) for split, values in lengths.items()}
    finding = f"inputs of more than {limit} tokens, which are {checks.long_inputs}: "
    finding += ", ".join(f"{split} {share:.1%}" for split, share in shares.items())
    finding += f"; the longest has {max(int(values.max()) for values in lengths.values())}"
    too_many = max(shares.values(), default=0.0) > MAX_LONG_INPUTS[checks.long_inputs]
    bound = dry.recipe.model.length_limit
    remedy = f"raise data.max_length{f' (the model reads up to {bound})' if bound else ''}, or shorten these texts"
    return judge("lengths", "warn" if too_many else "pass", finding, remedy)


def check_stored(folder: Path, quick: bool) -> Check:
    """The tokenised data of an earlier training are as they were written.

    Training reads them completely once, and later trusts them as long as size and time of the files do not change. A
    disk that changes bits is noticed only if everything is read again.
    """
    name = "stored-data"
    if quick:
        return Check(name, "skip", f"{folder} is read completely only without --quick")
    stores = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    broken = {store: names for store in stores if (names := damaged_files(store))}
    if broken:
        listed = "; ".join(f"{store}: {', '.join(names)}" for store, names in broken.items())
        remedy = f"remove {' and '.join(map(str, broken))}: training builds them again; and check the disk"
        return Check(name, "fail", f"changed since they were written: {listed}", remedy)
    listed = ", ".join(store.name for store in stores) or "none yet"
    return Check(name, "pass", f"every byte in {folder} is as it was written ({listed})")
