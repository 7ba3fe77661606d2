"""The pictures of docs/ideas that need no training: each is computed from the equation it shows, in a second.

T queries, S keys, D model, H heads, K head size.
"""

import torch
from benchmarks.charts import bars_svg, chart_svg
from torch import Tensor

from regard.attention.attend import causal_mask, window_mask
from regard.attention.layouts import Padded
from regard.attention.multihead import MultiHeadAttention
from regard.attention.recurrent_attention import gaussian, local_window, monotonic_positions
from regard.attention.scoring import SCORINGS
from regard.data.builtin import dependency_example
from regard.data.dialogues import pairs
from regard.ladder.measuring import model_flops, parameters_without_embeddings
from regard.layers.positions import LinearBias, RelativeVectors, Rotary, sinusoid
from regard.layers.recurrent import RecurrentLayer
from regard.tasks.operations import model_on_meta
from regard.tasks.planned import planned_task
from regard.tasks.registry import load_recipe
from regard.trees import linearize, parsed
from regard.viz.arcs import arcs_svg
from regard.viz.svg import Panel, panels_svg
from regard.viz.tree import tree_svg, with_tags

KEYS = 32
DOG = "(ROOT (S (NP (NNP John)) (VP (VBZ has) (NP (NP (DT a) (NN dog)) (PP (IN from) (NP (NNP Paris))))) (. .)))"
JOHN = "(ROOT (S (NP (NNP John)) (VP (VBZ sees) (NP (NNP Bill)))))"
LETTER = (
    "(ROOT (S (NP (DT the) (NN farmer)) (VP (VBD saw) (NP (NP (DT a) (NN letter)) (PP (IN of) (NP (DT the)"
    " (NN queen)))) (PP (IN near) (NP (DT the) (NN house)))) (. .)))"
)
TALK = ["Films?", "Dune.", "Long?", "Very.", "Good?", "Great!"]


def places(count: int, first: str = "") -> list[str]:
    """Names of positions."""
    return [f"{first}{place}" for place in range(count)]


def scores() -> str:
    """How many of 32 random keys a query looks at, exp(entropy), over the width of the vectors."""
    series = {}
    for name, scoring in SCORINGS.items():
        points = []
        for size in (4, 16, 64, 256, 1024):
            torch.manual_seed(1)
            score = scoring(size, size, size)
            q, k = torch.randn(200, size), torch.randn(KEYS, size)
            with torch.no_grad():
                weights = score(q, score.keys(k)).softmax(dim=-1)
            entropy = -(weights * weights.clamp_min(1e-30).log()).sum(dim=-1)
            points.append((size, float(entropy.exp().mean())))
        series[name] = points
    return chart_svg(series, "Scores of random vectors, before training", "width K", "keys looked at", log="x")


def local() -> str:
    """What local attention can see: the windows of local-m, and the Gaussian of local-p around predicted places."""
    source, target, reach = 12, 8, 3
    keys = Padded(torch.tensor([source]), source)
    steps = local_window(monotonic_positions(keys, torch.arange(target)), keys, reach)[0]
    centres = torch.tensor([[1.0, 0.2, 3.6, 5.5, 5.0, 9.3, 8.1, 10.8]])
    seen = gaussian(centres, keys, reach / 2) * local_window(centres, keys, reach)
    named = [f"p={float(place):g}" for place in centres[0]]
    return panels_svg(
        [
            Panel(steps.double().numpy(), places(target, "t="), places(source), "local-m: |s - t| <= 3"),
            Panel(seen[0].numpy(), named, places(source), "local-p: a Gaussian around p"),
        ]
    )


def masks() -> str:
    """Who may look at whom."""
    size, reach = 10, 2
    seen = {
        "encoder: all": torch.ones(size, size),
        "decoder: causal": causal_mask(size),
        "restricted, r = 2": window_mask(size, reach),
    }
    return panels_svg([Panel(mask.double().numpy(), places(size), places(size), name) for name, mask in seen.items()])


def recurrent() -> str:
    """How much the last output depends on the input k words earlier, in layers as they are before training."""
    words, size, series = 48, 64, {}
    for name in ("rnn", "gru", "lstm", "self-attention"):
        torch.manual_seed(1)
        x = torch.randn(32, words, size, requires_grad=True)
        y = looked_back(x) if name == "self-attention" else RecurrentLayer(name, size, size)(x)[0]
        (gradient,) = torch.autograd.grad((y[:, -1] * torch.randn(32, size)).sum(), x)
        fading = gradient.norm(dim=-1).mean(dim=0).flip(0)
        series[name] = [(float(k), float(fading[k] / fading[1])) for k in range(1, words)]
    title = "Influence of a word after k more words"
    return chart_svg(series, title, "words back, k", "size of the gradient, k = 1 being 1", log="y")


def looked_back(x: Tensor) -> Tensor:
    """Causal self-attention of one head."""
    layout = Padded(torch.full((x.size(0),), x.size(1)), x.size(1))
    return MultiHeadAttention(x.size(-1), 1)(x, x, layout.pattern(layout, causal=True))


def positions() -> str:
    """What each scheme says about places 0 .. 11, or about two of them."""
    count, size = 12, 32
    here = torch.arange(count)
    table = sinusoid(here, size)
    turned = Rotary().rotate(torch.ones(count, 1, size), here)[:, 0]
    distances = here - here[:, None]
    biases = LinearBias(8).scores(torch.empty(0), distances)
    clipped = RelativeVectors(4, 4).clipped(distances)
    named = places(count)
    scores = (
        Panel(table[:, :16].numpy(), named, places(16, "d"), "sinusoidal: p, its first components"),
        Panel((table @ table.T / (size / 2)).numpy(), named, named, "sinusoidal: p_i . p_j"),
        Panel((turned @ turned.T / size).numpy(), named, named, "rotary: q . k of equal vectors"),
        Panel(biases[0].numpy(), named, named, "ALiBi, head 1 of 8: -|i - j| / 2", full=8.0),
        Panel(biases[3].numpy(), named, named, "ALiBi, head 4 of 8: -|i - j| / 16", full=8.0),
        Panel(clipped.double().numpy() - 4, named, named, "relative: clip(j - i), k = 4", full=4.0),
    )
    return panels_svg(scores)


def chat() -> str:
    """Which turns are read before each reply, for two lengths of the context."""
    panels = []
    for context in (1, 3):
        read = [source.split("\t") for source, *_ in pairs(TALK, None, None, context)]  # type: ignore[arg-type]
        seen = [[float(turn in turns) for turn in TALK[:-1]] for turns in read]
        panels.append(Panel(seen, TALK[1:], TALK[:-1], f"turns = {context}"))
    return panels_svg(panels)


def parsing() -> str:
    """A tree, and the tokens that a model writes to say it."""
    (tree,) = parsed([DOG])
    return tree_svg(tree, " ".join(linearize(tree)))


def tags() -> str:
    """A tree whose model writes parts of speech, and its tokens."""
    (tree,) = parsed([JOHN])
    return tree_svg(with_tags(tree), " ".join(linearize(tree, "tags")))


def cost() -> str:
    """The training cost of table 2 in Vaswani et al. 2017, and 6 N D for our recipes of the same models."""
    bars = {name: {"time on the hardware": value} for name, value in (("GNMT", 23), ("ConvS2S", 9.6), ("MoE", 20))}
    for size, paper in (("base", 3.3), ("big", 23)):
        bars[f"Transformer {size}"] = {
            "time on the hardware": paper,
            "6 N D": recipe_flops(f"wmt14-en-de-{size}") / 1e18,
        }
    return bars_svg(bars, "Training cost, English to German, 10^18 FLOP", log=True)


def recipe_flops(name: str) -> float:
    """6 N D for all steps of a recipe; D are the target tokens of a full batch in every step."""
    recipe = load_recipe(name)
    parameters = parameters_without_embeddings(model_on_meta(planned_task(recipe, [])))
    return model_flops(parameters, recipe.training.max_steps * recipe.training.batch_tokens)


def dependencies() -> str:
    """A sentence of the small grammar with the head of each word."""
    (tree,) = parsed([LETTER])
    example = dependency_example(tree)
    return arcs_svg(example["words"], example["heads"], example["relations"])


DRAWINGS = {
    make.__name__: make
    for make in (scores, local, masks, recurrent, positions, chat, parsing, tags, cost, dependencies)
}
