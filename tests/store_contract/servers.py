"""Who schedules, signs of life, and what a party has granted and knows of others."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.access.joined_party import FROM, TO, Contact, JoinedParty
from fate_flow.core.access.key_list import MOST_REPLACED, KeyState, PartyKeys, ReplacedKeyList, SignedKeyList
from fate_flow.core.access.limits import DAY, Grants, PartyLimits, TableLimits
from fate_flow.core.access.permission import EVERYTHING, INCOMING, OUTGOING, Kind, Thing
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.peer import PeerTrouble
from tests.store_contract.cases import Cases, Each


class SchedulerCases(Cases):
    def test_signs_of_life_are_counted(self, each: Each) -> None:
        assert each.heartbeats() == {}
        for party_id in ("10000", "9999", "10000"):
            each.record_heartbeat(party_id)
        assert each.heartbeats() == {"10000": 2, "9999": 1}

    def test_what_is_wrong_with_the_way_to_a_party_is_kept_until_it_is_over(self, each: Each) -> None:
        silent = PeerTrouble("10000", 5, "connection refused")
        cut_off = PeerTrouble("10001", 0, "", 7, "x" * 400)
        for trouble in (silent, cut_off, PeerTrouble("10002")):
            each.note_trouble(trouble)
        assert each.peer_troubles() == {"10000": silent, "10001": cut_off}
        each.record_heartbeat("10000")
        assert each.heartbeats() == {"10000": 1}
        both = PeerTrouble("10000", 5, "no answer in time", 9, "not authenticated")
        each.note_trouble(both)
        each.note_trouble(PeerTrouble("10001"))
        assert each.peer_troubles() == {"10000": both}
        each.forget_troubles()
        assert (each.peer_troubles(), each.heartbeats()) == ({}, {"10000": 1})

    def test_nobody_schedules_at_first(self, each: Each) -> None:
        assert each.scheduler() == ("", 0)
        assert each.renew_scheduler_lease("me", 1) is False
        assert each.take_scheduler_lease("me", 0, "you") is False
        assert each.renew_scheduler_lease("", 1) is False, "a refused one leaves nobody in charge"
        assert each.take_scheduler_lease("", 0, "me")
        owner, counter = each.scheduler()
        assert (owner, counter > 0) == ("me", True)

    def test_the_first_lease_is_taken_by_who_has_not_read_it(self, each: Each) -> None:
        """Reading writes nothing: a view reads it, too."""
        assert each.take_scheduler_lease("", 0, "me")
        assert each.take_scheduler_lease("", 0, "you") is False
        assert each.scheduler() == ("me", 1)

    def test_every_look_of_the_owner_counts(self, each: Each) -> None:
        each.scheduler()
        each.take_scheduler_lease("", 0, "me")
        before = each.scheduler()[1]
        assert [each.renew_scheduler_lease(owner, 5) for owner in ("me", "you", "me")] == [True, False, True]
        assert each.scheduler() == ("me", before + 2)

    def test_steady_time_is_what_the_owner_wrote_down_and_goes_on_from_there(self, each: Each) -> None:
        assert each.steady() == 0
        each.scheduler()
        each.take_scheduler_lease("", 0, "me")
        assert each.renew_scheduler_lease("me", 70)
        assert each.renew_scheduler_lease("you", 99) is False
        assert each.steady() == 70
        each.take_scheduler_lease(*each.scheduler(), "you")
        assert each.steady() == 70

    def test_only_one_that_stands_still_is_replaced(self, each: Each) -> None:
        each.scheduler()
        each.take_scheduler_lease("", 0, "me")
        _, seen = each.scheduler()
        each.renew_scheduler_lease("me", 1)
        assert each.take_scheduler_lease("me", seen, "you") is False
        assert each.take_scheduler_lease("you", seen + 1, "you") is False
        assert each.take_scheduler_lease("me", seen + 1, "you")
        assert each.renew_scheduler_lease("me", 2) is False, "fenced"
        assert each.renew_scheduler_lease("you", 2)


class PermissionCases(Cases):
    def test_what_a_party_is_granted_stays_until_it_is_taken_back(self, each: Each) -> None:
        reader, table = Thing(Kind.COMPONENT, "Reader"), Thing(Kind.DATASET, "t", "demo")
        everything = Thing(Kind.DATASET, "*", "*")
        each.grant("9999", [reader, table])
        each.grant("9999", [reader, everything, Thing(Kind.DATASET, "Reader", "demo")])
        each.grant("10000", [reader])
        assert each.granted("9999") == {reader, table, everything, Thing(Kind.DATASET, "Reader", "demo")}
        each.revoke("9999", [reader, Thing(Kind.DATASET, "t", "other")])
        assert each.granted("9999") == {table, everything, Thing(Kind.DATASET, "Reader", "demo")}
        assert (each.granted("10000"), each.granted("10001")) == ({reader}, frozenset())

    def test_streams_of_a_component_are_granted_beside_it_in_each_direction(self, each: Each) -> None:
        command, everything = Thing(Kind.COMPONENT, "Command"), EVERYTHING[Kind.COMPONENT]
        there, back = Thing(Kind.STREAM, "Command", OUTGOING), Thing(Kind.STREAM, "*", INCOMING)
        each.grant("9999", [command, there, back])
        assert each.granted("9999") == {command, there, back}
        each.revoke("9999", [there, everything])
        assert each.granted("9999") == {command, back}
        each.replace_grants("9999", Grants(frozenset({everything, there, back})))
        assert each.grants("9999").things == {everything, there, back}

    def test_names_are_told_apart_as_they_are_written(self, each: Each) -> None:
        each.grant("9999", [Thing(Kind.DATASET, "t", "demo")])
        assert Thing(Kind.DATASET, "T", "demo") not in each.granted("9999")
        each.grant("9999", [Thing(Kind.DATASET, "T", "demo")])
        assert len(each.granted("9999")) == 2


    def test_limits_stay_with_their_grants(self, each: Each) -> None:
        reader, table = Thing(Kind.COMPONENT, "Reader"), Thing(Kind.DATASET, "t", "demo")
        other = EVERYTHING[Kind.DATASET]
        limits = {table: TableLimits(frozenset({"a", "ä b"}), 3)}
        party_limits = PartyLimits(8, True, 5, frozenset({"sha256:b", "sha256:a"}))
        wanted = Grants(frozenset({reader, table}), limits, party_limits, "ada", 7)
        assert each.grants("9999") == Grants()
        each.grant("9999", [other])
        each.replace_grants("9999", wanted)
        assert each.grants("9999") == wanted
        each.grant("9999", [table, other])
        assert each.grants("9999") == replace(wanted, things=frozenset({reader, table, other}))
        assert each.grantees() == ("9999",)
        each.revoke("9999", [table])
        each.grant("9999", [table])
        assert each.grants("9999").tables == {}
        each.replace_grants("9999", Grants(limits=PartyLimits(approval=False), by="bob", at=8))
        assert each.grants("9999") == Grants(limits=PartyLimits(approval=False), by="bob", at=8)
        each.grant("10000", [reader])
        assert (each.grantees(), each.granted("10000")) == (("10000", "9999"), {reader})

    def test_uses_of_a_table_are_counted_for_a_day(self, each: Each) -> None:
        table, other = Thing(Kind.DATASET, "t", "demo"), Thing(Kind.DATASET, "t", "other")
        each.replace_grants("9999", Grants(frozenset({table, other})))
        assert each.use_table("9999", table, "share_0", DAY, 2)
        assert each.use_table("9999", table, "share_0", DAY + 5, 2), "the same one"
        assert each.use_table("9999", table, "share_1", DAY + 9, 2)
        assert each.use_table("9999", table, "share_2", DAY + 9, 2) is False
        assert each.use_table("9999", other, "share_2", DAY + 9, 1)
        assert each.use_table("10000", table, "share_2", DAY + 9, 1)
        assert [each.uses_of_table("9999", table, since) for since in (0, DAY, DAY + 9)] == [2, 1, 0]
        assert each.use_table("9999", table, "share_2", 2 * DAY - 1, 2) is False
        assert each.use_table("9999", table, "share_2", 2 * DAY, 2)
        assert each.uses_of_table("9999", table, 0) == 2


class SiteKeyCases(Cases):
    def test_a_party_has_one_key_which_is_not_replaced_unseen(self, each: Each) -> None:
        old, new = SiteKey("10000", "a" * 64, "an old one"), SiteKey("10000", "b" * 64, "a new one")
        assert (each.site_key("10000"), each.replace_site_key(new, old.key_id, 1)) == (None, False)
        assert each.add_site_key(old, 1)
        assert each.add_site_key(new, 2) is False
        assert each.replace_site_key(new, "c" * 64, 2) is False
        assert each.site_key("10000") == old
        assert each.replace_site_key(new, old.key_id, 2)
        assert (each.site_key("10000"), each.site_key("1000")) == (new, None)

    def test_a_key_that_is_dropped_is_gone(self, each: Each) -> None:
        each.add_site_key(SiteKey("9999", "a" * 64, "x"), 1)
        each.add_site_key(SiteKey("10000", "b" * 64, "y"), 1)
        assert each.drop_site_key("10000")
        assert each.drop_site_key("10000") is False
        assert (each.site_key("10000"), each.site_key("9999").pem) == (None, "x")


class PartyKeyCases(Cases):
    FIRST = PartyKeys("10000", 1, "a" * 64, SignedKeyList("root", "list 1", "sig 1"), 5, KeyState.JOINED, "ann", 5)
    SECOND = replace(FIRST, number=2, signed=SignedKeyList("root", "list 2", "sig 2"), received_at=9)

    def test_the_newest_list_is_kept_and_the_ones_before_it_too(self, each: Each) -> None:
        assert (each.party_keys("10000"), each.replace_party_keys(self.SECOND, self.FIRST)) == (None, False)
        assert each.add_party_keys(self.FIRST)
        assert each.add_party_keys(self.SECOND) is False
        assert each.party_keys("10000") == self.FIRST
        assert each.replace_party_keys(self.SECOND, self.FIRST)
        assert each.party_keys("10000") == self.SECOND
        third = replace(self.SECOND, number=3, root_id="b" * 64, signed=SignedKeyList("r", "list 3", "s"))
        assert each.replace_party_keys(replace(third, received_at=12), self.SECOND)
        assert each.replaced_key_lists("10000") == (
            ReplacedKeyList(self.FIRST.signed, 5, 9), ReplacedKeyList(self.SECOND.signed, 9, 12)
        )
        assert each.replaced_key_lists("1000") == ()

    def test_of_the_lists_that_were_replaced_the_newest_ones_stay(self, each: Each) -> None:
        def numbered(number: int, party_id: str = "10000") -> PartyKeys:
            return replace(self.FIRST, party_id=party_id, number=number, signed=SignedKeyList("r", str(number), "s"))

        each.add_party_keys(numbered(1, "1000"))
        each.replace_party_keys(numbered(2, "1000"), numbered(1, "1000"))
        each.add_party_keys(numbered(1))
        for number in range(1, MOST_REPLACED + 3):
            assert each.replace_party_keys(numbered(number + 1), numbered(number))
        found = [int(one.signed.content) for one in each.replaced_key_lists("10000")]
        assert found == list(range(3, MOST_REPLACED + 3))
        assert [one.signed.content for one in each.replaced_key_lists("1000")] == ["1"], "of another party"

    def test_a_list_takes_the_place_of_the_one_that_was_looked_at(self, each: Each) -> None:
        each.add_party_keys(self.FIRST)
        for changed in ({"number": 2}, {"root_id": "b" * 64}, {"state": KeyState.REMOVED}):
            assert each.replace_party_keys(self.SECOND, replace(self.FIRST, **changed)) is False
        assert (each.party_keys("10000"), each.replaced_key_lists("10000")) == (self.FIRST, ())

    def test_a_state_changes_once_and_keeps_who_changed_it(self, each: Each) -> None:
        assert each.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "bob", 7) is False
        each.add_party_keys(self.FIRST)
        assert each.move_party_keys("10000", KeyState.REVOKED, KeyState.REMOVED, "bob", 7) is False
        assert each.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "bob", 7)
        assert each.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "eve", 8) is False
        assert each.party_keys("10000") == replace(self.FIRST, state=KeyState.REVOKED, state_by="bob", state_at=7)
        assert each.replace_party_keys(self.SECOND, self.FIRST) is False, "the list was looked at before"

    def test_a_party_has_joined_while_its_keys_count(self, each: Each) -> None:
        joined = JoinedParty("10000", "https://10.0.0.2:9390", "one two three four five six", 7, "ann", -250)
        each.put_joined_party(joined)
        assert each.joined_parties() == (), "nothing is known of its keys"
        each.add_party_keys(self.FIRST)
        assert each.joined_parties() == (joined,)
        again = replace(joined, address="https://fate.example:1", phrase="zoo", joined_at=9, joined_by="bob")
        each.put_joined_party(again)
        each.put_joined_party(replace(joined, party_id="10001"))
        assert each.joined_parties() == (again,)
        each.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "bob", 7)
        assert each.joined_parties() == ()
        assert (each.drop_joined_party("10000"), each.drop_joined_party("10000")) == (True, False)

    def test_the_last_contact_in_each_direction_is_kept(self, each: Each) -> None:
        heard = Contact("10000", FROM, 5, "TLSv1.3", "a" * 64)
        reached = replace(heard, direction=TO, at=6, key_id="b" * 64)
        for contact in (reached, heard, replace(heard, party_id="1000"), heard):
            each.note_contact(contact)
        later = replace(heard, at=9, tls="TLSv1.4", key_id="c" * 64)
        each.note_contact(later)
        assert each.contacts() == (replace(heard, party_id="1000"), later, reached)

    def test_the_lists_of_all_parties_are_in_order(self, each: Each) -> None:
        others = [replace(self.FIRST, party_id=one) for one in ("9999", "10001")]
        for keys in (*others, self.FIRST):
            each.add_party_keys(keys)
        each.move_party_keys("9999", KeyState.JOINED, KeyState.REMOVED, "bob", 7)
        assert [(one.party_id, one.state.value) for one in each.all_party_keys()] == [
            ("10000", "joined"), ("10001", "joined"), ("9999", "removed")
        ]
