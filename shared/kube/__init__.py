"""The door to Kubernetes: the only importer of kubernetes_asyncio."""
