"""Whom we believe: the ConfigMap, and the standing of certificates under its bundles."""

import pytest

from apiserver.authentication import Peer, judge
from apiserver.trust import (
    GRACE_SECONDS,
    NOBODY,
    FrontProxy,
    Trust,
    TrustError,
    TrustSource,
    describe,
    parse,
    trusted_until,
)
from tests.api.pki import CLIENT, NOW, SERVER, Issued, authority

AT = NOW.timestamp()
DAY = 86_400.0


@pytest.fixture(scope="module")
def front() -> Issued:
    return authority("front-proxy-ca")


@pytest.fixture(scope="module")
def users() -> Issued:
    return authority("client-ca")


def config(front: Issued, users: Issued, **changes: str) -> dict[str, str]:
    """The ConfigMap as kube-apiserver writes it."""
    return {
        "client-ca-file": users.pem,
        "requestheader-client-ca-file": front.pem,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    } | {name.replace("_", "-"): value for name, value in changes.items()}


def test_check_12_all_seven_keys_are_read(front: Issued, users: Issued) -> None:
    assert parse(config(front, users)) == Trust(
        FrontProxy(
            authorities=(front.certificate,),
            allowed_names=frozenset({"front-proxy-client"}),
            username_headers=("X-Remote-User",),
            uid_headers=("X-Remote-Uid",),
            group_headers=("X-Remote-Group",),
            extra_prefixes=("X-Remote-Extra-",),
        ),
        (users.certificate,),
    )


def test_check_12_missing_keys_are_empty_lists(front: Issued) -> None:
    trust = parse({"requestheader-client-ca-file": front.pem})

    assert trust == Trust(FrontProxy((front.certificate,)), ())


def test_check_24_without_its_key_no_header_carries_a_uid(front: Issued, users: Issued) -> None:
    data = config(front, users)
    del data["requestheader-uid-headers"]

    proxy = parse(data).front_proxy
    assert proxy is not None
    assert proxy.uid_headers == ()


def test_check_32_a_missing_client_ca_is_no_fault(front: Issued, users: Issued) -> None:
    data = config(front, users)
    del data["client-ca-file"]

    trust = parse(data)
    assert trust.client_authorities == ()
    assert trust.front_proxy is not None


def test_check_14_a_bundle_may_hold_several_authorities(front: Issued, users: Issued) -> None:
    other = authority("next-front-proxy-ca")
    data = config(front, users, requestheader_client_ca_file=front.pem + other.pem)

    proxy = parse(data).front_proxy
    assert proxy is not None
    assert proxy.authorities == (front.certificate, other.certificate)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("requestheader-allowed-names", "front-proxy-client", "is no JSON"),
        ("requestheader-group-headers", '{"a": 1}', "not a JSON list of strings"),
        ("requestheader-username-headers", "[1]", "not a JSON list of strings"),
        ("client-ca-file", "-----BEGIN CERTIFICATE-----\nnope\n", "no bundle of PEM"),
    ],
)
def test_bad_data_is_refused_with_the_name_of_its_key(
    front: Issued, users: Issued, key: str, value: str, told: str
) -> None:
    with pytest.raises(TrustError, match=f"{key}.*{told}"):
        parse(config(front, users) | {key: value})


def test_one_authority_for_both_is_refused_while_any_name_is_allowed(front: Issued) -> None:
    shared = config(front, front, requestheader_allowed_names="[]")

    with pytest.raises(TrustError, match="allowed-names"):
        parse(shared)
    assert parse(config(front, front)).front_proxy is not None


class Now:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_check_12_bad_data_keeps_the_last_good_trust_and_says_what_is_wrong(
    front: Issued, users: Issued
) -> None:
    source = TrustSource(Now())
    assert source.update(config(front, users))
    good = source.current

    changed = source.update(config(front, users, requestheader_allowed_names="nope"))

    assert not changed
    assert source.current is good
    assert "requestheader-allowed-names" in source.problem
    source.update(config(front, users))
    assert source.problem == ""


def test_before_anything_is_known_nobody_is_trusted() -> None:
    source = TrustSource(Now())

    assert source.current is NOBODY
    assert not source.update(None)
    assert source.current is NOBODY


def test_a_trust_that_goes_missing_holds_for_a_while_and_then_no_more(
    front: Issued, users: Issued
) -> None:
    now = Now()
    source = TrustSource(now)
    source.update(config(front, users))
    good = source.current

    source.update(None)
    assert source.problem
    now.seconds = GRACE_SECONDS
    source.update({})  # still missing: the time runs from when it went
    assert source.current is good
    now.seconds = GRACE_SECONDS + 1
    assert source.current is NOBODY

    source.update(config(front, users))
    assert source.current == good


def test_a_certificate_is_trusted_under_its_own_bundle_only(front: Issued, users: Issued) -> None:
    leaf = front.issue("front-proxy-client", days=(-1, 10))

    assert trusted_until(leaf.certificate, [front.certificate], AT) == AT + 10 * DAY
    assert trusted_until(leaf.certificate, [users.certificate], AT) is None
    assert trusted_until(leaf.certificate, [], AT) is None


def test_an_authority_of_the_same_name_with_another_key_vouches_for_nothing(front: Issued) -> None:
    impostor = authority("front-proxy-ca")

    leaf = impostor.issue("front-proxy-client")

    assert trusted_until(leaf.certificate, [front.certificate], AT) is None


@pytest.mark.parametrize("days", [(-10, -1), (1, 10)], ids=["expired", "not yet valid"])
def test_check_18_a_certificate_out_of_its_time_is_not_trusted(
    front: Issued, days: tuple[int, int]
) -> None:
    leaf = front.issue("front-proxy-client", days=days)

    assert trusted_until(leaf.certificate, [front.certificate], AT) is None


def test_an_expired_authority_vouches_for_nothing() -> None:
    old = authority("old", days=(-10, -1))
    leaf = old.issue("front-proxy-client")

    assert trusted_until(leaf.certificate, [old.certificate], AT) is None


def test_trust_ends_with_the_first_certificate_of_the_chain() -> None:
    short = authority("short", days=(-1, 5))
    leaf = short.issue("front-proxy-client", days=(-1, 10))

    assert trusted_until(leaf.certificate, [short.certificate], AT) == AT + 5 * DAY


def test_a_chain_may_run_over_what_the_peer_sent_if_that_is_an_authority(front: Issued) -> None:
    between = front.issue("between", authority=True)
    leaf = between.issue("front-proxy-client")
    mere_leaf = front.issue("no authority")
    below_leaf = mere_leaf.issue("front-proxy-client")

    bundle = [front.certificate]
    assert trusted_until(leaf.certificate, bundle, AT) is None
    assert trusted_until(leaf.certificate, bundle, AT, [between.certificate]) is not None
    assert trusted_until(below_leaf.certificate, bundle, AT, [mere_leaf.certificate]) is None


@pytest.mark.parametrize(
    ("usages", "wanted"),
    [
        pytest.param(CLIENT, True, id="for clients"),
        pytest.param(SERVER, False, id="check 17: for servers only"),
        pytest.param((*SERVER, *CLIENT), True, id="for both"),
        pytest.param((), True, id="not limited"),
    ],
)
def test_a_certificate_says_whether_clients_may_use_it(
    front: Issued, usages: tuple[()], wanted: bool
) -> None:
    assert describe(front.issue("x", usages=usages).certificate).for_clients is wanted


def test_name_and_organizations_are_read_from_the_subject(users: Issued) -> None:
    leaf = users.issue("alice", organizations=["devs", "ops"])

    described = describe(leaf.certificate)
    assert (described.common_name, described.organizations) == ("alice", ("devs", "ops"))
    assert describe(users.issue("", organizations=["devs"]).certificate).common_name == ""


@pytest.mark.parametrize(
    ("usages", "stands"),
    [(CLIENT, True), (SERVER, False)],
    ids=["for clients", "check 17: for servers only"],
)
def test_a_certificate_stands_under_each_bundle_that_issued_it_if_clients_may_use_it(
    front: Issued, users: Issued, usages: tuple[()], stands: bool
) -> None:
    """TLS refuses such a certificate too; this does not depend on it."""
    trust = parse(config(front, users))

    as_proxy = judge(Peer(front.issue("x", usages=usages).der), trust, AT)
    as_user = judge(Peer(users.issue("x", usages=usages).der), trust, AT)

    assert (as_proxy.proxy_until is not None, as_proxy.client_until) == (stands, None)
    assert (as_user.proxy_until, as_user.client_until is not None) == (None, stands)
