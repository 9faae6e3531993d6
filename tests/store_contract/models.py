"""The store of models: parts of this party, deployments and tags."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.spec import ModelReference
from fate_flow.store.contract.transaction import Store
from fate_flow.store.values import Deployment, ModelTag, StoredModel
from tests.store_contract.cases import GUEST, HOST, Cases, Each

LR = ModelReference("churn", 0, "lr_0", "output_model")
MODEL = StoredModel(
    LR, GUEST, "json_model", "ab" * 32, 4_000_000_000, "j1", "9999", 2, "fate.coordinated_lr",
    {"guest": [9999], "host": [10000, 10001]}, {"metadata": {"\u00e4": [1]}}, 7,
)  # fmt: skip


class ModelCases(Cases):
    def test_a_model_is_there_for_its_party_until_it_is_dropped(self, each: Each) -> None:
        each.save_model(MODEL)
        assert each.model(LR, GUEST) == MODEL
        assert each.model(LR, HOST) is None
        assert each.model(replace(LR, version=1), GUEST) is None
        assert each.model(replace(LR, model_id="Churn"), GUEST) is None
        assert not each.drop_model(LR, HOST)
        assert each.drop_model(LR, GUEST)
        assert not each.drop_model(LR, GUEST)
        assert each.model(LR, GUEST) is None

    def test_a_model_takes_the_place_of_one_of_the_same_name(self, each: Each) -> None:
        each.save_model(MODEL)
        each.save_model(replace(MODEL, sha256="cd" * 32, task_version=3))
        assert [one.sha256 for one in each.models()] == ["cd" * 32]

    def test_a_new_model_takes_the_place_of_no_other(self, each: Each) -> None:
        assert each.add_model(MODEL)
        assert not each.add_model(replace(MODEL, sha256="cd" * 32, job_id="j2"))
        assert each.add_model(replace(MODEL, party=HOST))
        assert each.models("churn") == (MODEL, replace(MODEL, party=HOST))

    def test_models_are_listed_the_newest_first(self, each: Each) -> None:
        older = replace(MODEL, reference=replace(LR, model_id="a"), create_time=6)
        scale = replace(MODEL, reference=replace(LR, task="scale_0"))
        for one in (older, scale, MODEL):
            each.save_model(one)
        assert each.models() == (MODEL, scale, older)
        assert each.models(limit=1) == (MODEL,)
        assert each.models("churn") == (MODEL, scale)
        assert each.models("nobody") == ()
        assert each.models_of_job("j1") == (MODEL, scale, older)
        assert each.models_of_job("j2") == ()
        each.save_model(replace(older, party=HOST, initiator="10000", size=5))
        assert each.bytes_of_models() == {"9999": 12_000_000_000, "10000": 5}

    def test_all_of_a_version_is_found_beyond_what_a_list_has(self, store: Store, each: Each) -> None:
        """A list ends at 1,000 models by default, and the oldest ones are behind that."""
        scale = replace(MODEL, reference=replace(LR, task="scale_0"), party=HOST, create_time=6)
        newer = [
            replace(MODEL, reference=replace(LR, version=one), create_time=9, job_id="j2") for one in range(1, 1_001)
        ]
        with store.transaction() as tx:
            for one in (*newer, scale, MODEL, replace(MODEL, reference=replace(LR, model_id="other", version=2_000))):
                tx.save_model(one)
        assert {one.reference.version for one in each.models("churn")} == set(range(1, 1_001))
        assert each.models_of_version("churn", 0) == (MODEL, scale)
        assert each.models_of_version("churn", 1_001) == each.models_of_version("nobody", 0) == ()
        assert [each.newest_version(one) for one in ("churn", "other", "nobody")] == [1_000, 2_000, None]
        assert each.versions_by_output("churn") == {
            ("lr_0", "output_model"): frozenset(range(1_001)), ("scale_0", "output_model"): frozenset({0}),
        }  # fmt: skip
        assert each.versions_by_output("nobody") == {}
        each.save_model(replace(MODEL, party=HOST, initiator="10000"))
        assert [each.initiators_of_model(one) for one in ("churn", "nobody")] == [{"9999", "10000"}, set()]
        of_others = [each.newest_of_others("churn", *one) for one in ((GUEST, "j1"), (GUEST, "j2"), (HOST, "j1"))]
        assert of_others == [1_000, 0, None]

    def test_a_deployment_goes_with_its_version(self, each: Each) -> None:
        first = Deployment("202611231200", "churn", 0, {"components": {"lr_0": {}}}, 7)
        second = replace(first, name="202611231201", version=1, create_time=8)
        each.save_deployment(second)
        each.save_deployment(first)
        assert each.deployment(first.name) == first
        assert each.deployment("nobody") is None
        assert each.deployments("churn") == (first, second)
        assert [each.drop_deployments("churn", 0), each.drop_deployments("churn", 0)] == [1, 0]
        assert each.deployments("churn") == (second,)

    def test_a_tag_is_on_models_by_its_name(self, each: Each) -> None:
        good, old = ModelTag("good", "may be used \u00e4", 7), ModelTag("old", "", 8)
        each.save_model_tag(old)
        each.save_model_tag(good)
        assert each.model_tags(10) == (good, old)
        assert each.model_tags(1) == (good,)
        assert [each.tag_model("good", "churn"), each.tag_model("good", "churn")] == [True, False]
        assert each.tag_model("old", "churn")
        assert each.tag_model("good", "apples")
        assert each.tags_of_model("churn") == (good, old)
        assert each.models_with_tag("good") == ("apples", "churn")
        assert each.untag_model("good", "apples")
        assert not each.untag_model("good", "apples")
        each.save_model_tag(replace(old, description="new"))
        assert each.model_tag("old") == replace(old, description="new")
        assert each.drop_model_tag("good")
        assert not each.drop_model_tag("good")
        assert (each.models_with_tag("good"), each.tags_of_model("churn")) == ((), (replace(old, description="new"),))
