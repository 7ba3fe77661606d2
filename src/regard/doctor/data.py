"""Checks of the data: files, examples, overlap of splits, labels, filters, tokenizers, lengths, stored data."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.accounts import REASONS
from regard.data.cleaning import CLEAN_REASONS
from regard.data.examples import Example
from regard.data.formats import describe_sources
from regard.data.store import damaged_files
from regard.doctor.check import STATUSES, Check, Status, grade, judge
from regard.doctor.sample import DryRun, Survey
from regard.messages import Message, find_message, join_messages
from regard.recipe import Recipe
from regard.run_files import MANIFEST, SPLITS
from regard.tasks.base import AnyTask
from regard.tasks.checks import majority_advice
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
TREATMENTS = {str(name): name for name in (Message("split"), Message("truncated"), Message("read in windows"))}
"""Share of inputs beyond the maximum length, by what happens to them."""
MIN_EXAMPLES_OF_CLASS = 5
MAX_MAJORITY = 0.9
MAX_SHOWN_CHARACTERS, MAX_SHOWN_LABELS = 60, 8
SEE_CLEAN = Message("`regard clean` shows samples; [data.clean] sets the filters")
FILTERS = {
    "empty": (Message("empty"), Message("find out why so many lines are empty")),
    "too_long": (Message("too long"), Message("raise data.max_length or text.vocab_size, or split long lines")),
    "ratio": (Message("ratio"), Message("check that line n of both files belongs together, or raise data.max_ratio")),
    "identical": (Message("identical"), Message("check both languages, or write data.drop_identical=false")),
    **{name: (REASONS[name], SEE_CLEAN) for name in CLEAN_REASONS},
    "duplicate": (Message("duplicate"), Message("check the files; data.drop_duplicates=false keeps copies")),
    "also in valid or test": (Message("also in valid or test"), Message("take valid and test from other texts")),
}
"""By reason: its name for people, and the remedy if many examples are dropped for it."""


def check_files(recipe: Recipe, surveyed: Survey, left_out: Sequence[str] = ()) -> Check:
    """Every split has examples; a damaged file was reported before."""
    read = {split: surveyed.splits[split] for split in SPLITS}
    counts = ", ".join(f"{split} {part.examples + part.unread:,}" for split, part in read.items())
    sources = [source for split in SPLITS for source in getattr(recipe.data, split)]
    counted = Message("examples: {counts}", counts=counts)
    described = describe_sources(sources, recipe.data.folder, recipe.fields)
    finding = join_messages("\n", [counted, *described, *left_out])
    missing = [split for split in ("train", "valid") if not read[split].examples]
    if missing:
        settings = ", ".join(f"data.{split}=..." for split in missing)
        remedy = Message("name examples for {splits}: {settings}", splits=", ".join(missing), settings=settings)
        return Check(Message("files"), "fail", finding, remedy)
    if not surveyed.complete:
        only = Message("only the beginning of each file was read (--quick)")
        part = Message("a sample of them was read (--quick)") if surveyed.counted else only
        return Check(Message("files"), "pass", join_messages("; ", [finding, part]))
    if not read["test"].examples:
        remedy = Message("set data.test or data.hold_out_test: examples for the final score, not used by training")
        return Check(Message("files"), "warn", finding, remedy)
    return Check(Message("files"), "pass", finding)


def show_examples(task: type[AnyTask], surveyed: Survey) -> Check:
    """Show the first example of each split, so that the user can notice swapped files or wrong columns."""
    lines = [f"{split}: {_shown(task, samples[0])}" for split, samples in surveyed.samples.items() if samples]
    return Check(Message("examples"), "pass", join_messages("\n", [Message("the first example of each split"), *lines]))


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
    findings = []
    for split, share in shares.items():
        count, total = len(surveyed.overlap[split]), len(surveyed.held_out[split])
        first = Message(", first at number {number:,}", number=surveyed.first_overlap[split]) if share else ""
        values = {"count": count, "total": total, "split": split, "share": share, "first": first}
        findings.append(
            Message("{count:,} of {total:,} distinct examples of {split} ({share:.1%}) occur in train{first}", **values)
        )
    finding = join_messages("; ", findings or [Message("there is nothing to compare")])
    if not surveyed.complete:
        finding = join_messages("", [finding, Message(" (among the examples that --quick reads)")])
    separate = Message("write data.exclude_overlap=true, which leaves them out of train")
    remedy = separate if hasattr(recipe.data, "exclude_overlap") else Message("remove them from the training files")
    return judge(Message("overlap"), grade(max(shares.values(), default=0.0), 0.0, MAX_OVERLAP), finding, remedy)


def check_labels(task: type[AnyTask], surveyed: Survey) -> Check:
    """There are several classes, each frequent enough to be learnt, and none only in valid or test."""
    name, train, checks = Message("labels"), surveyed.splits["train"], task.checks.label_checks
    if train.numbers:
        values = np.array(train.numbers)
        shown = {"low": values.min(), "high": values.max(), "mean": values.mean(), "variance": values.var()}
        finding = Message("from {low:g} to {high:g}, mean {mean:.2f}, variance {variance:.2f}", **shown)
        remedy = Message("all numbers are equal: check the column of labels")
        return judge(name, "pass" if values.std() else "fail", finding, remedy)
    counts, total = train.labels, train.labels.total()
    shares = ", ".join(f"{label} {count / total:.0%}" for label, count in counts.most_common(MAX_SHOWN_LABELS))
    shares += ", …" if len(counts) > MAX_SHOWN_LABELS else ""
    finding = Message("{count} in train: {shares}", count=len(counts), shares=shares)
    unseen = {split: sorted(set(surveyed.splits[split].labels) - set(counts)) for split in HELD_OUT}
    if "unseen" in checks and any(unseen.values()):
        names = "; ".join(f"{split}: {', '.join(labels[:5])}" for split, labels in unseen.items() if labels)
        finding = join_messages("\n", [finding, Message("not in train, but in {names}", names=names)])
        return Check(name, "fail", finding, Message("use the same names in all files"))
    if "one-class" in checks and len(counts) < 2:
        return Check(name, "fail", finding, Message("one class cannot be learnt: check the column of labels"))
    rare = [label for label, count in counts.items() if count < MIN_EXAMPLES_OF_CLASS]
    if "rare" in checks and rare:
        few = Message("{count} have fewer than {least} examples", count=len(rare), least=MIN_EXAMPLES_OF_CLASS)
        remedy = Message("collect more examples of, or merge: {labels}", labels=", ".join(rare[:5]))
        return Check(name, "warn", join_messages("; ", [finding, few]), remedy)
    label, count = counts.most_common(1)[0]
    if "majority" in checks and count > MAX_MAJORITY * total:
        advice = majority_advice(label, count / total)
        return Check(name, "warn", join_messages("; ", [finding, advice.problem]), advice.remedy)
    return Check(name, "pass", finding)


def check_plausibility(task: type[AnyTask], surveyed: Survey) -> Check | None:
    """Targets belong to their sources, and labels to their texts. None if the task has no such test."""
    warnings = task.checks.data_warnings(surveyed.samples)
    if warnings is None:
        return None
    status: Status = "fail" if any(item.fatal for item in warnings) else "warn" if warnings else "pass"
    good = Message("no sign of shuffled, exchanged or copied examples")
    finding = join_messages("\n", [item.problem for item in warnings] or [good])
    return judge(Message("plausibility"), status, finding, join_messages("\n", (item.remedy for item in warnings)))


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
    reasons = [join_messages(" ", [FILTERS[reason][0], f"{share:.1%}"]) for reason, share in shares.items() if share]
    finding = Message("{share:.1%} of the training examples are dropped", share=dropped)
    if reasons:
        finding = Message("{key}: {value}", key=finding, value=join_messages(", ", reasons))
    if len(train.sample) < train.examples:
        finding = join_messages("", [finding, Message(" (in a sample of {count:,})", count=len(train.sample))])
    reason = max(shares, key=shares.__getitem__)
    return judge(Message("filters"), grade(dropped, DROPPED_WARN, DROPPED_FAIL), finding, FILTERS[reason][1])


def check_tokenizer(dry: DryRun) -> Check:
    """Words of the validation data have few tokens, and few are [UNK] or spelled in bytes."""
    name, task = Message("tokenizer"), dry.task
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
        kind = Message("are [UNK]") if lossy else Message("are spelled in bytes")
        shown = {"name": find_message(sequence), "tokens": len(tokenizer), "ratio": ratio, "share": share, "kind": kind}
        found = Message("{name}: {tokens:,} tokens, {ratio:.2f} per word, {share:.1%} of the words {kind}", **shown)
        findings.append(found)
    finding = Message("in {split}: {findings}", split=split, findings=join_messages("; ", findings))
    larger = Message("raise text.vocab_size, lower text.min_frequency")
    larger = Message("start from another run") if dry.recipe.start_from else larger
    if worst != "pass":
        remedy = Message(
            "check that train and valid are in the same language and script; if so, {larger}, or add text",
            larger=larger,
        )
        return judge(name, worst, finding, remedy)
    if max_tokens > MAX_TOKENS_PER_WORD:
        return Check(name, "warn", finding, Message("sequences become long: {larger}", larger=larger))
    return Check(name, "pass", finding)


def check_inputs(dry: DryRun) -> Check | None:
    """What the task says about the inputs that it makes of the tokenised data; None if it says nothing."""
    checked = dry.task.checks.check_store(dry.task, dry.store)
    if checked is None:
        return None
    finding, advice = checked
    finding = join_messages("\n", [finding, *(item.problem for item in advice)])
    remedy = join_messages("\n", (item.remedy for item in advice))
    return judge(Message("inputs"), "warn" if advice else "pass", finding, remedy)


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
    longest = max(int(values.max()) for values in lengths.values())
    listed = ", ".join(f"{split} {share:.1%}" for split, share in shares.items())
    shown = {"limit": limit, "treatment": TREATMENTS[checks.long_inputs], "shares": listed, "longest": longest}
    finding = Message("inputs of more than {limit} tokens, {treatment}: {shares}; the longest has {longest}", **shown)
    too_many = max(shares.values(), default=0.0) > MAX_LONG_INPUTS[checks.long_inputs]
    bound = dry.recipe.model.length_limit
    reads = Message(" (the model reads up to {bound})", bound=bound) if bound else ""
    remedy = Message("raise data.max_length{reads}, or shorten these texts", reads=reads)
    return judge(Message("lengths"), "warn" if too_many else "pass", finding, remedy)


def check_stored(folder: Path, quick: bool) -> Check:
    """The tokenised data of an earlier training are as they were written.

    Training reads them completely once, and later trusts them as long as size and time of the files do not change. A
    disk that changes bits is noticed only if everything is read again.
    """
    name = Message("stored-data")
    if quick:
        return Check(name, "skip", Message("{folder} is read completely only without --quick", folder=folder))
    stores = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    broken = {store: names for store in stores if (names := damaged_files(store))}
    if broken:
        listed = "; ".join(f"{store}: {', '.join(names)}" for store, names in broken.items())
        folders = ", ".join(map(str, broken))
        remedy = Message("remove {folders}: training builds them again; and check the disk", folders=folders)
        return Check(name, "fail", Message("changed since they were written: {listed}", listed=listed), remedy)
    listed = ", ".join(store.name for store in stores) or Message("none yet")
    finding = Message("every byte in {folder} is as it was written ({listed})", folder=folder, listed=listed)
    return Check(name, "pass", finding)
