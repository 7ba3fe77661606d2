"""The benchmark of pretraining: all models have the same inputs, and padding is not counted."""

import torch
from benchmarks.pretraining import READY, Ours, Setting, race

from regard.models.bert import BertSettings

CPU = torch.device("cpu")
TINY = BertSettings(layers=1, d_model=16, num_heads=2, d_ff=16, max_positions=32)


def test_all_models_have_the_same_inputs() -> None:
    setting = Setting(vocabulary=200, length=32, batch=256, device=CPU)
    found = setting.padded()
    assert len(found) == READY
    assert {batch["input_ids"].shape for _, batch in found} == {torch.Size([8, 32])}
    tokens, batch = found[3]
    assert tokens == int((batch["input_ids"] != setting.vocabulary.pad).sum()) == int(batch["attention_mask"].sum())
    ours = setting.batches(packed=False).batch(3).micro_batches[0]
    assert torch.equal(ours["source"][:8], batch["input_ids"]) and torch.equal(
        ours["next_labels"][:8], batch["next_sentence_label"]
    )


def test_our_model_is_timed() -> None:
    setting = Setting(vocabulary=200, length=32, batch=256, device=CPU)
    ((name, speed, spent),) = race([lambda: Ours(TINY, setting)], 0.01, CPU)
    assert name == "regard" and speed > 0 and spent > 0
