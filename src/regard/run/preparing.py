"""Prepares the training data of a recipe in parts: in this process, in several, or on a Dask cluster.

    tokenizers and plan -> parts -> duplicates -> kept rows -> manifest        (data/parts.py)

The first and the last step are for one process. The others are maps over items that need no order, so an engine only
has to call `work` for every item once, on any machine that sees the run folder and the files. What a killed worker had
not finished, another one does.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from heapq import heappop, heappush
from importlib import import_module
from json import dumps
from operator import itemgetter
from pathlib import Path
from threading import Thread

from regard.data.accounts import collect_accounts, record_account
from regard.data.digests import Digests
from regard.data.encoders import PairEncoder
from regard.data.parts import Corpus, Plan, check_plan, do_item, make_plan, merge, outdated_plan, steps, work_sizes
from regard.data.store import DIGESTS, PARTS, PLAN
from regard.errors import UserError
from regard.files import JsonObject, remove_leftovers, write_json
from regard.messages import Message
from regard.processes import Ended, count_workers, run_each
from regard.recipe import Recipe
from regard.run.run import Run
from regard.run.train import open_folder, report_advice
from regard.run_files import ACCOUNTS, STORES
from regard.tasks.base import Report
from regard.tasks.checks import overlap_warnings
from regard.tasks.defaults import take_defaults
from regard.tasks.operations import refuse_dropout
from regard.training.advice import Advice

CONNECT_SECONDS = 30
Progress = Callable[[str, int, int], None]
"""Called with a title, the number of items done and the number of all items."""
TITLES = {
    "parts": Message("parts"),
    "duplicates": Message("duplicates, by group"),
    "kept": Message("rows without duplicates, by part"),
}


def prepare_parts(
    recipe: Recipe,
    folder: Path,
    parts: int,
    part: int | None = None,
    *,
    on: str = "",
    resume: bool = False,
    report: Report = print,
    progress: Progress = lambda title, done, total: None,
) -> JsonObject:
    """Prepare the training data in up to `parts` parts for each file; return the number of parts and of pairs.

    What is done already is not done again. Without `part`: all of it, on the Dask cluster `on` or in processes of this
    machine. With `part` 0: tokenizers and plan only; with K: only the parts K, K + `parts` ... of the plan, in this
    process.
    """
    check_recipe(recipe)
    if part is not None and on:
        problem, remedy = "one part is written in this process", "leave out `--part` or `--on`"
        raise UserError(problem, remedy, code="conflicting-options", where="--on")
    if part:
        corpus, plan = load_plan(folder)
        run = Run.open(folder)
        if run.changed_group(take_defaults(recipe, run.recipe)):
            raise outdated_plan(corpus.folder, "the recipe")
        if not part <= parts == plan.parts:
            problem = f"part {part} of {parts} does not exist: {corpus.folder / PLAN} has {plan.parts} parts per file"
            remedy = f"set `--parts {plan.parts}` and a smaller `--part`, or make the plan again with `--part 0`"
            raise UserError(problem, remedy, code="invalid-setting", where="--part")
        numbers = range(part - 1, len(plan.slices), parts)
        for done, number in enumerate(numbers, 1):
            do_item(corpus, plan, PARTS, number)
            progress(TITLES[PARTS], done, len(numbers))
        return {"run": str(folder), "parts": len(numbers), "pairs": None}
    with open_folder(recipe, folder, resume, report) as run:
        with collect_accounts(None if part is None else report):  # all parts: reported at the end
            run.prepare(report)
        corpus, plan = write_plan(run, parts)
        report(Message("plan: {parts:,} parts", parts=len(plan.slices)))
        if part == 0:
            return {"run": str(folder), "parts": len(plan.slices), "pairs": None}
        warnings: list[Advice] = []
        compare = Thread(target=compare_splits, args=(run, warnings), daemon=True)  # while other processes work
        compare.start()
        for step, total in steps(corpus, plan).items():
            do = partial(work, run.folder.absolute(), plan.inputs, parts, step)
            items, sizes = range(total), work_sizes(corpus, plan) if step == PARTS else None
            engine = run_on_cluster(on, do, items) if on else run_here(do, items, recipe.data.workers, sizes)
            for finished, _ in enumerate(engine, 1):
                progress(TITLES[step], finished, total)
            remove_leftovers(corpus.folder / step)
        compare.join()
        with collect_accounts(report) as accounts:
            for account in merge(corpus, plan):
                record_account(account)
            train, _ = run.open_stores(report)
        write_json(run.folder / ACCOUNTS, {source: vars(account) for source, account in accounts.items()})
        report_advice(warnings, report)
        return {"run": str(folder), "parts": len(plan.slices), "pairs": len(train)}


def compare_splits(run: Run, warnings: list[Advice]) -> None:
    """Add warnings that examples of valid or test are in train; a file that cannot be read is an error of its part."""
    with suppress(UserError):
        warnings += overlap_warnings(run.recipe, run.task.checks)


def check_recipe(recipe: Recipe) -> None:
    """Raise a UserError if the data of a recipe cannot be prepared in parts."""
    if recipe.data.held_out:
        problem = "data in parts cannot be held out: no process sees all of it"
        raise UserError(problem, "name validation data in `data.valid`", code="unsupported", where="data.valid")
    clean = getattr(recipe.data, "clean", None)
    if clean and (clean.target_duplicates or clean.near_duplicates):
        problem = "equal targets and near-duplicates are not found in data in parts"
        remedy = "set `data.clean.target_duplicates = false` and `data.clean.near_duplicates = 0`"
        raise UserError(problem, remedy, code="unsupported", where="data.clean")
    refuse_dropout(recipe)


def corpus_of(run: Run) -> Corpus:
    """The training data of a run whose tokenizers are there."""
    data, encoder = run.recipe.data, run.task.encoder(filtered=True)
    if not isinstance(encoder, PairEncoder):
        problem, remedy = f"task {run.recipe.task} has no data in parts", "use `regard train`, which prepares its data"
        raise UserError(problem, remedy, code="unsupported", where="task")
    names, folder = ", ".join(map(str, data.train)), run.folder / STORES / "train"
    return Corpus(data.train, data.folder, run.recipe.fields, encoder, folder, encoder.filters.drop_duplicates, names)


def write_plan(run: Run, parts: int) -> tuple[Corpus, Plan]:
    """Cut the training data into parts and write the plan, unless it is current."""
    corpus = corpus_of(run)
    digests = Digests(corpus.folder / DIGESTS)
    content = dumps(run.task.content("train", None, digests))
    plan = make_plan(corpus, content, parts, digests)
    corpus.folder.mkdir(parents=True, exist_ok=True)
    plan.write(corpus.folder)
    digests.save()
    return corpus, plan


def load_plan(folder: Path) -> tuple[Corpus, Plan]:
    """The training data of a run, and its plan."""
    path = folder / STORES / "train" / PLAN
    if not path.is_file():
        remedy = "make the plan first: the same command with `--part 0`"
        raise UserError(f"{path} does not exist", remedy, code="no-plan", where=path)
    corpus, plan = corpus_of(Run.open(folder)), Plan.read(path.parent)
    check_plan(plan, corpus)
    return corpus, plan


# ---- engines


def work(folder: Path, inputs: str, parts: int, step: str, number: int) -> None:
    """Do one item on any machine."""
    corpus, plan = _load_once(folder, inputs, parts)
    do_item(corpus, plan, step, number)


@lru_cache(2)
def _load_once(folder: Path, inputs: str, parts: int) -> tuple[Corpus, Plan]:
    """The plan of a run; `inputs` and `parts` are those of the plan, and tell one plan from the next."""
    return load_plan(folder)


def run_here(
    function: Callable[[int], None], items: Sequence[int], workers: int, sizes: Sequence[int] | None = None
) -> Iterator[None]:
    """Call a function for each item in processes of this machine, each with about the same size of items."""
    workers = min(count_workers(workers), len(items))
    if workers <= 1:
        yield from map(function, items)
        return
    shares = share_out(items, sizes or [1] * len(items), workers)
    for _, message in run_each(partial(_do_share, function), shares, workers):
        if not isinstance(message, Ended):
            yield
        elif message.failure:
            remedy = "correct it and repeat the command; complete parts are kept"
            raise UserError(message.failure, remedy, code="worker-failed", where="data.workers")


def share_out(items: Sequence[int], sizes: Sequence[int], workers: int) -> list[list[int]]:
    """Give each item, the largest first, to the worker with the least so far."""
    shares = [(0, number, list[int]()) for number in range(workers)]
    for size, item in sorted(zip(sizes, items, strict=True), key=itemgetter(0), reverse=True):
        load, number, share = heappop(shares)
        heappush(shares, (load + size, number, [*share, item]))
    return [share for _, _, share in sorted(shares, key=itemgetter(1))]


def _do_share(function: Callable[[int], None], share: Sequence[int], report: Report) -> None:
    for item in share:
        function(item)
        report("done")


def run_on_cluster(address: str, function: Callable[[int], None], items: Sequence[int]) -> Iterator[None]:
    """Call a function for each item on a Dask cluster. What a lost worker did is done again by another one."""
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        problem, remedy = "`--on` needs the package distributed (Dask)", "pip install 'regard[cluster]'"
        raise UserError(problem, remedy, code="missing-package", where="distributed") from error
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        problem, remedy = f"no Dask scheduler answers at {address}", "start one with `dask scheduler`"
        raise UserError(problem, remedy, code="no-scheduler", where="--on") from error
    with client:
        try:
            for future in distributed.as_completed(client.map(function, items, pure=False)):
                yield future.result()
        except distributed.KilledWorker as error:
            problem = f"several workers ended at the same item: {error}"
            remedy = "give the workers more memory, or increase `--parts`; repeat the command, complete parts are kept"
            raise UserError(problem, remedy, code="worker-failed", where="--on") from error
