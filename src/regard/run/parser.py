"""Using a trained parser from Python, and judging it: the same path that the command line takes.

from regard import Parser
(parse,) = Parser.load("runs/gum").parse(["The cat sat on the mat ."])
print(parse.brackets, parse.repaired)
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.sources import Source
from regard.run.evaluation import Evaluation
from regard.run.folder import Progress
from regard.run.parsing import open_parser, trees_of
from regard.run.translator import Translator
from regard.tasks import Parse, Parsing
from regard.tasks.parsing import tree_scores
from regard.trees import sentence_text, to_brackets, words


class Parser(Translator):
    """One run of task parsing, or several of the same vocabulary voting together."""

    task: Parsing
    open = staticmethod(open_parser)

    def parse(self, sentences: Iterable[str | Sequence[str]], **changes: Any) -> list[Parse]:
        """The tree of each sentence, given as a list of words or as a line with blanks between them."""
        return list(self.stream(sentences, **changes))

    def stream(self, sentences: Iterable[str | Sequence[str]], **changes: Any) -> Iterator[Parse]:
        """The same for any number of sentences, in bounded memory."""
        listed = (each.split() if isinstance(each, str) else each for each in sentences)
        return self.task.parse(self.engine, listed, self.decoding(**changes))

    def evaluate(
        self, corpora: Sequence[Source], root: Path, progress: Progress | None = None, **changes: Any
    ) -> Evaluation:
        """Parse every sentence of some treebanks and compare with their trees, nothing left out."""
        started = time.perf_counter()
        gold = trees_of(corpora, root)
        sentences = [words(tree) for tree in gold]
        found: list[Parse] = []
        for parse in self.stream(sentences, **changes):
            found.append(parse)
            if progress is not None:
                progress(len(found), len(gold))
        return Evaluation(
            run=str(self.run.folder),
            checkpoint=self.checkpoint,
            corpora=[str(corpus) for corpus in corpora],
            decoding=self.decoding(**changes).model_dump(),
            scores=list(tree_scores(found, gold).values()),
            seconds=round(time.perf_counter() - started, 2),
            sources=[sentence_text(sentence) for sentence in sentences],
            references=[to_brackets(tree) for tree in gold],
            outputs=[parse.brackets for parse in found],
        )
