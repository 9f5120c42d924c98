"""Reports of health checks, in Kubernetes' words (check 102)."""

from shared.observability.health import PING, Check, report

BAD = Check("informer-sync", lambda: "nodes: Forbidden")


def test_check_102_all_is_well_is_said_in_one_word() -> None:
    told = report("readyz", [PING])

    assert told.fine
    assert told.text == "ok"


def test_check_102_verbose_lists_every_check() -> None:
    told = report("readyz", [PING, Check("shutdown", lambda: "")], verbose=True)

    assert told.text == "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"


def test_check_102_a_failure_is_listed_and_its_reason_is_for_the_log_only() -> None:
    told = report("readyz", [PING, BAD])

    assert not told.fine
    assert told.text == (
        "[+]ping ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n"
    )
    assert told.wrong == {"informer-sync": "nodes: Forbidden"}


def test_check_102_an_excluded_check_does_not_count() -> None:
    told = report("readyz", [PING, BAD], excluded=["informer-sync"], verbose=True)

    assert told.fine
    assert told.text == "[+]ping ok\n[+]informer-sync excluded: ok\nreadyz check passed\n"


def test_an_excluded_check_that_does_not_exist_is_told() -> None:
    told = report("readyz", [PING], excluded=["nonsense"], verbose=True)

    assert told.fine
    assert "no matches for ['nonsense']" in told.text
