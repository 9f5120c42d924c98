"""What both processes know: words, kinds, readings, arithmetic, the door to Kubernetes.

It imports none of the other packages. A thing that only one process uses lives there, not here.
"""
