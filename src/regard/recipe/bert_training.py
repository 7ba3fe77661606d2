"""How everything is trained that reads like BERT, whether it is pretrained or fine-tuned."""

from typing import Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.training.settings import TrainingSettings


class BertTrainingSettings(TrainingSettings):
    """What Devlin et al. 2018, sections A.2 and A.3, and their program have in common."""

    schedule: Literal["paper", "inverse_sqrt", "cosine", "constant", "linear"] = Field(
        "linear", description="how the learning rate moves; linear rises, then falls to zero at the end"
    )
    adam_beta2: float = Field(0.999, ge=0, lt=1, description="Adam: decay of the mean of squared gradients")
    weight_decay: float = Field(
        0.01, ge=0, description="0 is Adam; above it AdamW, on matrices only, never on norms and biases"
    )
    clip: float = Field(1.0, ge=0, description="longest gradient (global norm); longer ones are shortened; 0 = off")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability given away to wrong answers")

    @model_validator(mode="after")
    def nothing_is_read_twice(self) -> Self:
        if self.r_drop:
            raise ValueError("r_drop is for translators; write training.r_drop = 0.0")
        return self
