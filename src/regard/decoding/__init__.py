"""Searching for a model's best output: greedy, beam and sampling, over anything that can start and step."""

from regard.decoding.beam import beam_search
from regard.decoding.constraints import Constraint, ForcedPrefix, LoopGuard, NoRepeat, Rules
from regard.decoding.ensemble import Ensemble
from regard.decoding.greedy import greedy_search
from regard.decoding.hypothesis import Hypothesis, length_penalty
from regard.decoding.sampling import Sampler, sample
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import State, Stepper, Symbols

__all__ = [
    "Constraint",
    "DecodingSettings",
    "Ensemble",
    "ForcedPrefix",
    "Hypothesis",
    "LoopGuard",
    "NoRepeat",
    "Rules",
    "Sampler",
    "State",
    "Stepper",
    "Symbols",
    "beam_search",
    "decode",
    "greedy_search",
    "length_penalty",
    "sample",
]
