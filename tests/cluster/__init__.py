"""A real Kubernetes control plane on this machine: built, started, used and stopped.

`build` makes the binaries, `keys` the certificates, `access` the users; `plane` runs the
components as processes and `session` is what a test holds. `install` puts our own manifests and
processes on top, `up` keeps all of it running behind `make up`. Nothing here knows what a GPU
class is.
"""
