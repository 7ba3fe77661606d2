"""Seeded randomness: fixed values, so that no version of regard changes the stream of another."""

from regard.seeding import derive_seed, hash_bytes, random_key, rng


def test_generators_are_the_same_on_every_machine_and_differ_by_purpose() -> None:
    assert rng(1, 2).integers(1000, size=4).tolist() == rng(1, 2).integers(1000, size=4).tolist() == [627, 299, 335, 73]
    states = {tuple(rng(*seeds).integers(2**62, size=2)) for seeds in ((1,), (1, 0, 1), (1, 1), (2, 1), (1, 2))}
    assert len(states) == 5


def test_derived_seeds_are_the_same_on_every_machine_and_differ_by_purpose() -> None:
    assert derive_seed(1, "step", 2) == 8381546592646788231
    purposes: list[tuple[int | str, ...]] = [(), (2,), (2, 0), (20,), ("a",), ("b",)]
    assert len({derive_seed(seed, *purpose) for seed in (1, 2, 12) for purpose in purposes}) == 18


def test_random_keys_are_the_same_on_every_machine() -> None:
    assert random_key(1, 2, 0) == 15529898885419721899
    assert random_key(1, 2, 1) != random_key(1, 2, 0)


def test_hashes_are_the_same_on_every_machine() -> None:
    assert hash_bytes(1, 2, separator=":").hex() == "c2df1f12d3e91eb2"
    assert len(hash_bytes("a", size=6)) == 6
