"""The API as clients meet it: on a real control plane, and over bare sockets."""
