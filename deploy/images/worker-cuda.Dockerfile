# longhaul-worker for CPUs and GPUs (--device cuda): as worker.Dockerfile, with the CUDA modules, libtorch_cuda and NCCL. The driver comes from the machine,
# through its container runtime. Built by deploy/images/build.sh, or from the root of the tree:
#   docker build -f deploy/images/worker-cuda.Dockerfile -t longhaul-worker-cuda .
# BASE is any Debian 12; DEBIAN_MIRROR a mirror of its packages, PIP_INDEX_URL one of PyPI.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
ARG DEBIAN_MIRROR=
ARG PIP_INDEX_URL=
ARG JOBS=
COPY deploy/packages.txt deploy/images/install.sh /tmp/
RUN sh /tmp/install.sh /tmp/packages.txt
COPY deploy/packages.txt deploy/requirements.txt deploy/setup.sh /src/deploy/
RUN LONGHAUL_CACHE_DIR=/opt/longhaul PIP_NO_CACHE_DIR=1 /src/deploy/setup.sh
COPY . /src
# Where /ccache is mounted, a second build compiles what changed. The libraries go to /runtime, under the same paths, without compilers, headers and Python.
RUN export LONGHAUL_CACHE_DIR=/opt/longhaul CCACHE_DIR=/ccache \
 && cmake -S /src -B /build -G Ninja -DLONGHAUL_BUILD_TESTS=OFF \
 && cmake --build /build -j "${JOBS:-$(nproc)}" --target longhaul-worker longhaul-rank longhaul-lm longhaul-sentencepiece longhaul_cuda_modules \
 && strip /build/bin/longhaul-worker /build/bin/longhaul-rank /build/bin/longhaul-lm /build/bin/longhaul-sentencepiece \
 && /src/deploy/images/tokenizers.sh "$(/src/deploy/setup.sh --print-venv)/bin/pip" /runtime \
 && cd "$(/src/deploy/setup.sh --print-venv)"/lib/python3.11/site-packages && mkdir -p "/runtime$PWD" \
 && find torch/lib nvidia -name 'lib*.so*' ! -name libtorch_python.so -type f -print0 | tar -c --null -T - | tar -xC "/runtime$PWD"

FROM ${BASE}
ARG DEBIAN_MIRROR=
ARG VERSION=unknown
ARG REVISION=unknown
COPY deploy/images/worker.packages deploy/images/install.sh /tmp/
RUN sh /tmp/install.sh /tmp/worker.packages && rm /tmp/* \
 && groupadd --system --gid 10001 longhaul \
 && useradd --system --uid 10001 --gid longhaul --home-dir /data --shell /usr/sbin/nologin longhaul \
 && install -d -m 0755 /data && install -d -m 0770 -o longhaul -g root /state
COPY --from=build /runtime/ /
COPY --from=build /build/bin/longhaul-worker /build/bin/longhaul-rank /build/bin/longhaul-lm /build/bin/longhaul-sentencepiece /usr/local/bin/
COPY --from=build /build/lib/ /usr/local/lib/
COPY deploy/images/healthcheck /usr/local/bin/healthcheck
LABEL org.opencontainers.image.title="longhaul-worker-cuda" \
      org.opencontainers.image.description="The agent of a pool's node, and its ranks, for NVIDIA GPUs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT"
# A worker writes inner state (LONGHAUL_STATE_DIR=/state; default: none) and converted tokens (LONGHAUL_WORK_DIR; default: /tmp/longhaul-work, where
# /data is read-only): give both a volume. The root file system may be read-only. /data is where relative data paths of jobs begin.
# Its metrics want LONGHAUL_TOKENS, or LONGHAUL_INSECURE=true where the network is private.
ENV LONGHAUL_HTTP_LISTEN=0.0.0.0:7072 LONGHAUL_DATA_DIR=/data \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /data
EXPOSE 7072
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["healthcheck"]
# tini as process 1 hands signals on (SIGTERM drains) and reaps.
ENTRYPOINT ["/usr/bin/tini", "--", "longhaul-worker"]
