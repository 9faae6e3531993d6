"""Commands that wait to be sent, and text for people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Command, CommandKind
from tests.store_contract.cases import GUEST, HOST, Cases, Each, a_job, with_jobs


class OutboxCases(Cases):
    COMMAND = Command(
        CommandKind.TASK_STOP, "j1", HOST, 2, "reader_0", 3, "canceled", {"incarnation": "abc", "deep": [{"x": None}]}
    )

    def test_a_command_comes_back_as_it_was_put(self, each: Each) -> None:
        number = each.put_command(replace(self.COMMAND, id=77, attempts=5), 1)
        assert each.commands_after(0) == (replace(self.COMMAND, id=number),)

    def test_every_kind_of_command_is_kept(self, each: Each) -> None:
        for kind in CommandKind:
            each.put_command(Command(kind, "j1", HOST), 1)
        assert [command.kind for command in each.commands_after(0)] == list(CommandKind)

    def test_commands_go_in_the_order_in_which_they_came(self, each: Each) -> None:
        numbers = [each.put_command(replace(self.COMMAND, job_id=name), 1) for name in ("j3", "j1", "j2")]
        assert numbers == sorted(set(numbers))
        assert [command.job_id for command in each.commands_after(0)] == ["j3", "j1", "j2"]
        assert [command.job_id for command in each.commands_after(numbers[0])] == ["j1", "j2"]
        assert each.commands_after(numbers[2]) == ()

    def test_a_command_is_taken_once(self, each: Each) -> None:
        first, second = (each.put_command(self.COMMAND, 1) for _ in range(2))
        assert [each.take_command(first) for _ in range(2)] == [True, False]
        assert each.take_command(second + 1) is False
        assert [command.id for command in each.commands_after(0)] == [second]

    def test_a_number_is_not_used_again(self, each: Each) -> None:
        first = each.put_command(self.COMMAND, 1)
        each.take_command(first)
        assert each.put_command(self.COMMAND, 1) > first

    def test_commands_that_are_older_than_some_steady_time(self, each: Each) -> None:
        first, second = (each.put_command(self.COMMAND, 1, since) for since in (5, 7))
        assert [(one.id, one.since) for one in each.commands_before(7)] == [(first, 5)]
        assert [one.id for one in each.commands_before(8)] == [first, second]

    def test_reports_that_wait_for_their_way_to_an_initiator(self, each: Each) -> None:
        kinds = (CommandKind.REPORT, CommandKind.ASK_STOP, CommandKind.REPORT, CommandKind.REPORT)
        numbers = [each.put_command(Command(kind, "j1", GUEST), 1) for kind in kinds]
        each.put_command(Command(CommandKind.REPORT, "j1", HOST), 1)
        assert [one.id for one in each.reports_to(GUEST.party_id, 9)] == [numbers[0], *numbers[2:]]
        assert [one.id for one in each.reports_to(GUEST.party_id, 2)] == numbers[2:]
        assert each.reports_to("10009", 9) == ()

    def test_a_body_that_is_no_json_is_refused(self, each: Each) -> None:
        with pytest.raises(TypeError):
            each.put_command(replace(self.COMMAND, body={"party": HOST}), 1)
        assert each.commands_after(0) == ()


class MessageCases(Cases):
    def test_text_for_people_are_added_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.add_message(a_job().key, "released: why")
        assert each.add_message(a_job().key, "released: why") is False
        assert each.add_message(a_job().key, "and more")
        assert each.job(a_job().key).message == "released: why; and more"
        assert each.add_message(a_job("nobody").key, "x") is False
