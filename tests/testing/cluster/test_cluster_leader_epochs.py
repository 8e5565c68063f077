"""Where leader epochs end, case by case as Kafka's LeaderEpochFileCache answers it (KIP-101, KIP-320)."""

from __future__ import annotations

import pytest

from kwire.testing.cluster.leader_epochs import LeaderEpochs

END = 30


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Epoch 2 wrote 0 to 9, 4 wrote 10 to 19, 5 wrote the rest up to END."""
    made = LeaderEpochs()
    for epoch, start in ((2, 0), (4, 10), (5, 20)):
        made.begin(epoch, start)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        pytest.param(5, (5, END), id="the last one ends with the log"),
        pytest.param(4, (4, 20), id="one that ended"),
        pytest.param(3, (2, 10), id="one that wrote nothing: the one before"),
        pytest.param(1, (1, 0), id="one before all that is known"),
        pytest.param(6, (-1, -1), id="one that is not known yet"),
        pytest.param(-1, (-1, -1), id="none"),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end(asked, END) == answer


def test_nothing_is_known_of_a_log_without_epochs() -> None:
    assert LeaderEpochs().end(0, 5) == (-1, -1)
    assert LeaderEpochs().at(0) == -1


def test_an_epoch_that_wrote_nothing_gives_its_place_to_the_next(epochs: LeaderEpochs) -> None:
    epochs.begin(6, END)
    epochs.begin(9, END)
    assert epochs.end(6, END + 5) == (5, END)
    assert epochs.end(9, END + 5) == (9, END + 5)


def test_an_old_epoch_does_not_begin_again(epochs: LeaderEpochs) -> None:
    epochs.begin(4, END)
    assert epochs.at(END) == 5


def test_offsets_belong_to_the_epoch_they_were_written_in(epochs: LeaderEpochs) -> None:
    assert [epochs.at(offset) for offset in (0, 9, 10, 19, 20, 29)] == [2, 2, 4, 4, 5, 5]


def test_truncation_forgets_epochs_that_wrote_nothing_any_more(epochs: LeaderEpochs) -> None:
    epochs.truncate_end(20)
    assert epochs.end(5, 20) == (-1, -1)
    assert epochs.end(4, 20) == (4, 20)


def test_a_log_that_begins_later_keeps_the_epoch_of_its_first_record(epochs: LeaderEpochs) -> None:
    epochs.truncate_start(15)
    assert epochs.end(2, END) == (2, 15)
    assert epochs.at(15) == 4
    assert epochs.end(4, END) == (4, 20)
