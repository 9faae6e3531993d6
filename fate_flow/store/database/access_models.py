"""The tables of what is known of other parties, and granted to them, as peewee models; part of `models.MODELS`."""

from __future__ import annotations

from peewee import BigAutoField, BigIntegerField, CharField, CompositeKey, TextField

from fate_flow.store.database.base import Base


class PermissionRow(Base):
    f_party_id = CharField(10)
    f_kind = CharField(20)
    f_namespace = CharField(200, default="")         # of a dataset; of a component, the direction if it is its streams
    f_name = CharField(200)
    f_limits = TextField(null=True)

    class Meta:
        table_name = "t_permission"
        primary_key = CompositeKey("f_party_id", "f_kind", "f_namespace", "f_name")


class PartyLimitsRow(Base):
    f_party_id = CharField(10, primary_key=True)
    f_limits = TextField()
    f_by = CharField(100, default="")
    f_time = BigIntegerField(default=0)

    class Meta:
        table_name = "t_party_limits"


class TableUseRow(Base):
    f_party_id = CharField(10)
    f_namespace = CharField(200)
    f_name = CharField(200)
    f_share = CharField(120)
    f_time = BigIntegerField()

    class Meta:
        table_name = "t_table_use"
        primary_key = CompositeKey("f_party_id", "f_namespace", "f_name", "f_share")


class SiteKeyRow(Base):
    f_party_id = CharField(10)
    f_key_name = CharField(10, default="public")
    f_key = TextField()
    f_key_id = CharField(64)
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_site_key_info"
        primary_key = CompositeKey("f_party_id", "f_key_name")


class PartyKeyRow(Base):
    f_party_id = CharField(10, primary_key=True)
    f_number = BigIntegerField()
    f_root_id = CharField(64)
    f_root_key = TextField()
    f_content = TextField()
    f_signature = CharField(100)
    f_received_at = BigIntegerField()
    f_state = CharField(20)
    f_state_by = CharField(100)
    f_state_at = BigIntegerField()

    class Meta:
        table_name = "t_party_key"


class JoinedPartyRow(Base):
    f_party_id = CharField(10, primary_key=True)
    f_address = CharField(300)
    f_phrase = CharField(100)
    f_joined_at = BigIntegerField()
    f_joined_by = CharField(100)
    f_clock_offset = BigIntegerField()

    class Meta:
        table_name = "t_joined_party"


class PartyContactRow(Base):
    f_party_id = CharField(10)
    f_direction = CharField(10)
    f_time = BigIntegerField()
    f_tls = CharField(20)
    f_key_id = CharField(64)

    class Meta:
        table_name = "t_party_contact"
        primary_key = CompositeKey("f_party_id", "f_direction")


class OldPartyKeyRow(Base):
    f_id = BigAutoField()
    f_party_id = CharField(10)
    f_root_key = TextField()
    f_content = TextField()
    f_signature = CharField(100)
    f_received_at = BigIntegerField()
    f_replaced_at = BigIntegerField()

    class Meta:
        table_name = "t_old_party_key"
