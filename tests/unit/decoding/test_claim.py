"""Claims."""

from __future__ import annotations

import pytest

from shared.kube import decode
from shared.kube.decode import Undecodable
from tests.unit.decoding.raws import CLAIM, changed, no_problem, owner


class TestClaim:
    """An order or a template claim."""

    def test_asks_for_one_unless_it_says_more(self) -> None:
        assert decode.claim(changed(CLAIM, "spec.count", None), no_problem).count == 1

    @pytest.mark.parametrize("count", [0, -1, 1025, 2.0, "4", True, [], 10**20])
    def test_a_count_that_is_none_is_no_claim(self, count: object) -> None:
        with pytest.raises(Undecodable, match=r"spec\.count: .*a whole number from 1 to 1024"):
            decode.claim(changed(CLAIM, "spec.count", count), no_problem)

    @pytest.mark.parametrize("path", ["spec.className", "metadata.name", "metadata.namespace"])
    def test_without_a_class_or_a_name_it_is_none(self, path: str) -> None:
        with pytest.raises(Undecodable, match=path):
            decode.claim(changed(CLAIM, path, None), no_problem)

    def test_without_a_status_it_is_unbound_and_attached_to_nothing(self) -> None:
        got = decode.claim(changed(CLAIM, "status", None), no_problem)
        assert (got.resource_name, got.node_name, got.attached_to) == ("", "", None)

    @pytest.mark.parametrize(
        ("label", "is_template", "vmi"),
        [("true", True, "vmi-1"), ("false", False, ""), ("True", False, ""), (None, False, "")],
    )
    def test_is_a_template_claim_by_its_mark_and_then_owned_by_a_vmi(
        self,
        label: str | None,
        is_template: bool,
        vmi: str,
    ) -> None:
        """An order that somebody gave an owner reference to a VMI stays an order."""
        raw = changed(
            CLAIM,
            "metadata.ownerReferences",
            [owner("VirtualMachineInstance", "vmi-1", controller=False)],
        )
        raw = changed(raw, "metadata.labels", {"gpu.cozystack.io/template": label} if label else {})
        got = decode.claim(raw, no_problem)
        assert (got.is_template, got.owner) == (is_template, vmi)
