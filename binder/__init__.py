"""The process that acts: the only writer of a claim's placement.

It may import `shared`, never `apiserver` or `admission`.
"""
