"""Who a caller is, by headers of a front proxy, by certificate, by review."""

import pytest
from multidict import CIMultiDict

from apiserver.authentication import bearer_token, refuse_impersonation
from apiserver.identity import (
    ANONYMOUS,
    User,
    named_by_certificate,
    named_by_proxy,
    named_by_review,
    with_standard_groups,
)
from apiserver.trust import FrontProxy, PeerCertificate
from shared.errors import BadRequest, Forbidden

PROXY = FrontProxy(
    authorities=(),
    username_headers=("X-Remote-User", "X-Other-User"),
    uid_headers=("X-Remote-Uid",),
    group_headers=("X-Remote-Group", "X-Other-Group"),
    extra_prefixes=("X-Remote-Extra-",),
)


def headers(*lines: tuple[str, str]) -> CIMultiDict[str]:
    return CIMultiDict(lines)


def named(*lines: tuple[str, str]) -> User | None:
    return named_by_proxy(headers(*lines), PROXY)


def test_check_21_the_first_username_header_that_says_something_wins() -> None:
    assert named(("x-remote-user", "alice"), ("X-Other-User", "bob")) == User("alice")
    assert named(("X-Remote-User", ""), ("X-Other-User", "bob")) == User("bob")


def test_check_21_without_a_name_nobody_is_named() -> None:
    assert named() is None
    assert named(("X-Remote-User", ""), ("X-Remote-Group", "system:masters")) is None


def test_check_22_every_group_line_counts_commas_belong_to_the_name_and_empty_ones_go() -> None:
    user = named(
        ("X-Remote-User", "alice"),
        ("X-Other-Group", "last"),
        ("X-Remote-Group", "a,b"),
        ("X-Remote-Group", ""),
        ("x-remote-group", "c"),
    )

    assert user == User("alice", groups=("a,b", "c", "last"))


def test_check_23_extra_keys_are_lowered_and_decoded_and_keep_their_values_in_order() -> None:
    user = named(
        ("X-Remote-User", "alice"),
        ("X-Remote-Extra-Scopes", "one"),
        ("x-remote-extra-scopes", "two"),
        ("X-Remote-Extra-Example.org%2FKey", "three"),
        ("X-Remote-Extra-Bad%zz", "four"),
        ("X-Remote-Extra-End%2", "five"),
    )

    assert user is not None
    assert user.extra == (
        ("bad%zz", ("four",)),
        ("end%2", ("five",)),
        ("example.org/key", ("three",)),
        ("scopes", ("one", "two")),
    )


def test_check_24_a_uid_counts_only_where_its_header_is_listed() -> None:
    lines = (("X-Remote-User", "alice"), ("X-Remote-Uid", "42"))

    assert named(*lines) == User("alice", uid="42")
    old = FrontProxy(authorities=(), username_headers=("X-Remote-User",))
    assert named_by_proxy(headers(*lines), old) == User("alice")


@pytest.mark.parametrize(
    "line",
    [
        ("X-Remote-User", "al\udcffice"),
        ("X-Remote-Group", "\udcff"),
        ("X-Remote-Extra-Scopes", "\udcff"),
        ("X-Remote-Extra-%ff", "value"),
    ],
)
def test_check_25_bytes_that_are_no_utf_8_are_a_bad_request(line: tuple[str, str]) -> None:
    with pytest.raises(BadRequest, match="UTF-8"):
        named(line, ("X-Other-User", "alice"))


def test_names_beyond_ascii_are_kept() -> None:
    assert named(("X-Remote-User", "größe")) == User("größe")


def test_a_certificate_names_its_holder_and_says_which_one_it_was() -> None:
    certificate = PeerCertificate("alice", ("devs", "ops"), for_clients=True)

    assert named_by_certificate(certificate, "ab12") == User(
        "alice",
        groups=("devs", "ops"),
        extra=(("authentication.kubernetes.io/credential-id", ("X509SHA256=ab12",)),),
    )
    assert named_by_certificate(PeerCertificate("", ("devs",), for_clients=True), "ab") is None


def test_a_review_names_the_user_with_all_its_facts() -> None:
    told: dict[str, object] = {
        "username": "alice",
        "uid": "42",
        "groups": ["devs"],
        "extra": {"scopes": ["one", "two"]},
    }

    assert named_by_review(told) == User("alice", "42", ("devs",), (("scopes", ("one", "two")),))
    assert named_by_review({"username": ""}) is None
    assert named_by_review({"username": "bob", "groups": None, "extra": None}) == User("bob")


def test_check_26_authenticated_is_added_once_and_never_to_nobody() -> None:
    assert with_standard_groups(User("a", groups=("x",))).groups == ("x", "system:authenticated")
    once = User("a", groups=("system:authenticated", "x"))
    assert with_standard_groups(once) is once
    assert with_standard_groups(ANONYMOUS) is ANONYMOUS
    assert User("system:anonymous", groups=("system:unauthenticated",)) == ANONYMOUS


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer   abc ", "abc"),
        ("Basic abc", ""),
        ("Bearer", ""),
        ("", ""),
    ],
)
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(value: str, token: str) -> None:
    assert bearer_token(headers(("Authorization", value))) == token


def test_no_header_no_token() -> None:
    assert bearer_token(headers()) == ""


@pytest.mark.parametrize("name", ["Impersonate-User", "impersonate-group", "Impersonate-Extra-x"])
def test_check_31_impersonation_is_refused(name: str) -> None:
    with pytest.raises(Forbidden, match="impersonation"):
        refuse_impersonation(headers((name, "bob")))
    refuse_impersonation(headers(("Accept", "bob")))
