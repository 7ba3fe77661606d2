"""The GRU whose gates can be read and set equals the GRU of the layer."""

import torch

from regard.lab.experiments.gates import SIGN, WIDTH, GatedReader, distances, sums
from regard.layers.recurrent import RecurrentLayer


def test_gated_reader_is_the_gru() -> None:
    torch.manual_seed(0)
    model, ids = GatedReader(), torch.randint(SIGN + 1, (3, 7))
    h, r, z = model.read(ids)
    torch.testing.assert_close(h, model.layer.read(model.embedding(ids))[0])
    before, cell = GatedReader(before=True), RecurrentLayer("gru-cho", WIDTH // 2, WIDTH)
    cell.load_state_dict(before.layer.state_dict())
    torch.testing.assert_close(before.read(ids)[0], cell.read(before.embedding(ids))[0])
    assert ((r > 0) & (r < 1) & (z > 0) & (z < 1)).all()


def test_reset_before_and_after_the_product_agree_for_r_of_one() -> None:
    torch.manual_seed(0)
    after, before = GatedReader(), GatedReader(before=True)
    before.load_state_dict(after.state_dict())
    ids = torch.randint(SIGN + 1, (3, 7))
    assert not torch.allclose(after.read(ids)[0], before.read(ids)[0])
    after.r = before.r = 1.0
    torch.testing.assert_close(after.read(ids)[0], before.read(ids)[0])


def test_z_of_one_keeps_the_state() -> None:
    model = GatedReader()
    model.z = 1.0
    assert not model.read(torch.randint(SIGN + 1, (3, 7)))[0].any()


def test_sums_start_again_at_a_sign() -> None:
    batch = sums(torch.Generator().manual_seed(1), 20, 30)
    for ids, labels in zip(batch["ids"].tolist(), batch["labels"].tolist(), strict=True):
        total = 0
        for token, label in zip(ids, labels, strict=True):
            total = 0 if token == SIGN else (total + token) % 4 if token < 4 else total
            assert label == total
    assert distances(torch.tensor([[4, 1, 5, 6, 8, 7]])).tolist() == [[1, 0, 1, 2, 0, 1]]
