"""Pure: values and calculations. No I/O, no clock, no chance, no logging, no pydantic."""
