"""Decisions on incoming objects; hosted by `apiserver`, not a process of its own.

It may import `shared`. Rules open no connection and read no clock: what a decision needs comes
in as a value. `reads` reads it, `routes` answers the calls.
"""
