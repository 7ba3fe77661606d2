"""Settings of training: limits, batch size, optimizer, regularisation, validation, checkpoints and logs."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from regard.config import Field, NameIn, Settings, Unused, unless
from regard.losses.crossentropy import LOSSES

# Metrics for which a lower value is better; for every other metric a higher value is better.
LOWER_IS_BETTER = frozenset(
    {"loss", "nll", "perplexity", "word_perplexity", "masked_perplexity", "bits_per_character", "ter", "wer", "cer"}
)


class TrainingSettings(Settings):
    """Settings of training; the defaults are those of Vaswani et al. 2017, section 5, where the paper gives one."""

    max_steps: int = Field(100_000, gt=0, description="maximum number of optimizer steps")
    max_epochs: float = Field(0.0, ge=0, description="maximum number of epochs; 0: off")
    max_minutes: float = Field(
        0.0, ge=0, description="maximum training time in minutes, including earlier sessions; 0: off"
    )

    batch_tokens: int = Field(4096, gt=0, description="batch size in tokens per optimizer step, over all processes")
    batch_examples: int = Field(
        0,
        ge=0,
        description="only with labelled tasks and recognition: maximum examples per step, beside `batch_tokens`; "
        "0: no limit",
    )
    accumulation: int = Field(
        1, gt=0, description="gradient accumulation: micro-batches per optimizer step and process"
    )

    schedule: Literal["paper", "inverse_sqrt", "cosine", "constant", "linear", "slanted"] = Field(
        "paper",
        description="learning rate schedule; paper: equation 3 of Vaswani et al. 2017; slanted: slanted triangular, as "
        "in ULMFiT",
    )
    learning_rate: float = Field(
        1.0,
        gt=0,
        description='peak learning rate; with `schedule = "paper"` the factor of equation 3 (1: as published)',
    )
    warmup: int = Field(4000, ge=0, description="number of warmup steps, in which the learning rate rises from zero")
    warmup_share: float = Field(
        0.0, ge=0, lt=1, description="only with `warmup = 0`: warmup steps as a share of all steps"
    )
    layer_decay: float = Field(
        1.0,
        ge=1,
        description="only with labelled tasks: divide the learning rate by this factor for each layer below the head "
        "(2.6 in ULMFiT); 1: one rate for all layers",
    )
    unfreeze_epochs: float = Field(
        0.0,
        ge=0,
        description="only with labelled tasks: gradual unfreezing; train only the head at first, and one more layer, "
        "from the last to the first, after each such number of epochs; 0: train all layers",
    )
    optimizer: Literal["adam", "sgd"] = Field(
        "adam", description="adam: Adam, or AdamW with weight decay; sgd: stochastic gradient descent with momentum"
    )
    momentum: float = Field(
        0.9, ge=0, lt=1, description='only with `optimizer = "sgd"`: momentum; 0: plain gradient descent'
    )
    adam_beta1: float = Field(0.9, ge=0, lt=1, description="Adam beta1: decay of the first moment")
    adam_beta2: float = Field(0.98, ge=0, lt=1, description="Adam beta2: decay of the second moment")
    adam_epsilon: float = Field(1e-9, gt=0, description="Adam epsilon")
    weight_decay: float = Field(
        0.0,
        ge=0,
        description="weight decay of matrices (not of norms and biases); adam: decoupled from the gradient, as in "
        "AdamW; sgd: an L2 term, added to the gradient; 0: off",
    )
    clip: float = Field(0.0, ge=0, description="maximum global gradient norm (gradient clipping); 0: off")

    loss: Annotated[str, NameIn(LOSSES)] = Field(
        "cross_entropy", description="training objective; plug-ins can add others for classes and next tokens"
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="label smoothing: probability spread over the vocabulary"
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none",
        description="only with classification: class weights in the loss; balanced: each class counts equally, "
        "however many examples it has",
    )
    r_drop: float = Field(0.0, ge=0, description="R-Drop: weight of the KL term (Liang et al. 2021); 0: off")
    language_loss: float = Field(
        0.0,
        ge=0,
        description="only with classification and regression by a causal Transformer: weight of the language model's "
        "loss on the texts, as in GPT (0.5 there); 0: off",
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the weights' moving average (EMA), which is validated and saved instead; 0: off",
    )

    log_every: int = Field(50, gt=0, description="number of steps between log lines")
    validate_every: int = Field(1000, ge=0, description="number of steps between validations; 0: once per epoch")
    checkpoint_every: int = Field(0, ge=0, description="number of steps between checkpoints; 0: at every validation")
    keep: int = Field(5, gt=0, description="maximum number of checkpoints to keep, beside the best one")
    monitor: str = Field("loss", description="validation metric that selects the best checkpoint")
    patience: int = Field(
        0, ge=0, description="maximum number of validations without improvement (early stopping); 0: off"
    )
    stop_if_not_learning: bool = Field(
        True, description="stop at the second validation that is no better than a model that ignores its input"
    )
    samples: int = Field(3, ge=0, description="number of sample outputs to show at every validation")
    tensorboard: bool = Field(False, description="write TensorBoard logs")

    def in_steps(self, steps_in_epoch: int) -> Self:
        """The settings with epochs, warm-up share and validation interval converted to steps."""
        steps = self.max_steps
        if self.max_epochs:
            steps = max(1, min(steps, round(self.max_epochs * steps_in_epoch)))
        return self.model_copy(
            update={
                "max_steps": steps,
                "max_epochs": 0.0,
                "warmup": self.warmup or round(self.warmup_share * steps),
                "validate_every": self.validate_every or steps_in_epoch,
            }
        )

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.warmup == 0, "warmup = 0", "warmup_share")
        used = [name for name in ("label_smoothing", "r_drop") if getattr(self, name)]
        yield from unless(self.loss == "cross_entropy", 'loss = "cross_entropy"', *used)
        yield from unless(self.optimizer == "sgd", 'optimizer = "sgd"', "momentum")
        adam = ("adam_beta1", "adam_beta2", "adam_epsilon")
        yield from unless(self.optimizer == "adam", 'optimizer = "adam"', *adam)


def improves(monitor: str, score: float, best: float | None) -> bool:
    """True if `score` is better than `best`; NaN never is."""
    if score != score:
        return False
    if best is None:
        return True
    return score < best if monitor in LOWER_IS_BETTER else score > best
