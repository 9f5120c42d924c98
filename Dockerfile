# One image for every process. The build stage may use what it likes; the image gets a virtual
# environment with the hashed runtime requirements and our wheel, and nothing of the source tree.
#
# Pin the base by digest where you build: --build-arg BASE=python:3.11-slim@sha256:<digest>. The
# digest is not written here, since it must be looked up where the image comes from.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
COPY requirements/ requirements/
RUN python -m venv /opt/gpu \
    && /opt/gpu/bin/pip install --require-hashes --no-deps -r requirements/runtime.txt
RUN python -m venv /opt/tools \
    && /opt/tools/bin/pip install --require-hashes --no-deps -r requirements/dev.txt
COPY pyproject.toml README.md LICENSE ./
COPY shared/ shared/
COPY admission/ admission/
COPY apiserver/ apiserver/
COPY binder/ binder/
# --no-isolation: the backend is the one with a hash, not whatever is newest today.
RUN /opt/tools/bin/python -m build --wheel --no-isolation --outdir /dist \
    && /opt/gpu/bin/pip install --no-deps /dist/*.whl \
    && /opt/gpu/bin/pip check \
    && /opt/gpu/bin/pip uninstall --yes pip setuptools

FROM ${BASE}
LABEL org.opencontainers.image.title="cozystack-gpu" \
      org.opencontainers.image.description="GPU classes, claims and their placement for Cozystack" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/gpu /opt/gpu
# PYTHONSAFEPATH: a folder called `shared` where we are started must not hide ours.
ENV PATH=/opt/gpu/bin:$PATH \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /empty
USER 65532:65532
CMD ["gpu-apiserver"]
