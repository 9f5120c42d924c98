"""Decisions on incoming objects; hosted by `apiserver`, not a process of its own.

It may import `shared`; it opens no connection and reads no clock: what a decision needs comes
in as a value.
"""
