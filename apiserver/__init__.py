"""The process that answers: the aggregated API of the catalog, and the admission webhooks.

It may import `shared` and `admission`, never `binder`. It writes nothing to the cluster but
access reviews.
"""
