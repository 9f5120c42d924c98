"""A cluster with something in it, and what its tenants see: `python -m tests.demo`.

`story` holds the figures, worked by hand from the objects in manifests/examples/demo; `stage`
puts those objects into the running cluster; `__main__` tells the story and holds the live
answers to it.
"""
