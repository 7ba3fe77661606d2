"""The settings of a training run: when it ends, how it learns, how it is watched and what it leaves on the disk."""

from typing import Literal

from pydantic import model_validator

from regard.config import Field, Settings

# Metrics that improve by falling; every other metric improves by rising.
LOWER_IS_BETTER = frozenset(
    {"loss", "nll", "perplexity", "word_perplexity", "masked_perplexity", "bits_per_character", "ter"}
)


class TrainingSettings(Settings):
    """How a model is trained; the defaults are those of Vaswani et al. 2017, section 5, where they give one."""

    max_steps: int = Field(100_000, gt=0, description="stop after this many optimizer steps")
    max_epochs: float = Field(0.0, ge=0, description="stop after this many passes over the data, if sooner; 0 = off")
    max_minutes: float = Field(
        0.0, ge=0, description="stop after this many minutes of training, resumed runs included, if sooner; 0 = off"
    )

    batch_tokens: int = Field(4096, gt=0, description="tokens of one optimizer step, over all processes together")
    accumulation: int = Field(1, gt=0, description="parts a process computes one after another to save memory")

    schedule: Literal["paper", "inverse_sqrt", "cosine", "constant", "linear"] = Field(
        "paper", description="how the learning rate moves; paper is equation 3 of Vaswani et al. 2017"
    )
    learning_rate: float = Field(
        1.0, gt=0, description="paper: the factor before equation 3 (1 = as published); otherwise the highest rate"
    )
    warmup: int = Field(4000, ge=0, description="steps over which the learning rate rises from zero")
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="Adam: decay of the mean of gradients")
    adam_beta2: float = Field(0.98, ge=0, lt=1, description="Adam: decay of the mean of squared gradients")
    adam_epsilon: float = Field(1e-9, gt=0, description="Adam: what keeps a division by zero away")
    weight_decay: float = Field(
        0.0, ge=0, description="0 is Adam; above it AdamW, on matrices only, never on norms and biases"
    )
    clip: float = Field(0.0, ge=0, description="longest gradient (global norm); longer ones are shortened; 0 = off")

    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability given away to wrong tokens in the target")
    r_drop: float = Field(0.0, ge=0, description="weight of the R-Drop term (Liang et al. 2021); 0 = off")
    ema: float = Field(
        0.0, ge=0, lt=1, description="decay of the moving average of the weights that is validated and kept; 0 = off"
    )

    log_every: int = Field(50, gt=0, description="steps between two lines of the log")
    validate_every: int = Field(1000, gt=0, description="steps between two validations")
    checkpoint_every: int = Field(0, ge=0, description="steps between two checkpoints; 0 = at every validation")
    keep: int = Field(5, gt=0, description="newest checkpoints kept, beside the best one")
    monitor: str = Field("loss", description="the validation metric that decides which checkpoint is the best")
    patience: int = Field(0, ge=0, description="stop after this many validations without improvement; 0 = off")
    samples: int = Field(3, ge=0, description="outputs shown at every validation")
    tensorboard: bool = Field(False, description="also write the log for TensorBoard")

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> "TrainingSettings":
        if self.schedule != "paper" and self.learning_rate >= 0.5:
            raise ValueError(
                f"learning_rate is the highest rate of schedule = {self.schedule!r} and {self.learning_rate} would "
                "diverge; write one like learning_rate = 0.0005"
            )
        if self.schedule in ("cosine", "linear") and self.warmup >= self.max_steps:
            raise ValueError(
                f"warmup = {self.warmup} leaves nothing of max_steps = {self.max_steps} for schedule = "
                f"{self.schedule!r}; write a smaller warmup"
            )
        return self


def improves(monitor: str, score: float, best: float | None) -> bool:
    """Whether `score` is better than the `best` so far; a score that is not a number never is."""
    if score != score:
        return False
    if best is None:
        return True
    return score < best if monitor in LOWER_IS_BETTER else score > best
