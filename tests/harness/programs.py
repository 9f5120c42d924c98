"""Programs that tests start and interrupt."""

HEEDS_INTERRUPTS = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""How a program begins that is sent SIGINT: whoever runs us in the background of a script makes
all of us ignore it, and Python leaves it so."""
