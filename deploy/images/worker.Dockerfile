# longhaul-worker for CPUs. Built by deploy/images/build.sh, or from the root of the tree:
#   docker build -f deploy/images/worker.Dockerfile -t longhaul-worker .
# BASE is any Debian 12; DEBIAN_MIRROR a mirror of its packages, PIP_INDEX_URL one of PyPI.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
ARG DEBIAN_MIRROR=
ARG PIP_INDEX_URL=
ARG JOBS=
COPY deploy/packages.txt deploy/images/install.sh deploy/images/requirements-cpu.txt /tmp/
RUN sh /tmp/install.sh /tmp/packages.txt && python3 -m venv /opt/longhaul \
 && /opt/longhaul/bin/pip install --quiet --no-cache-dir --no-deps ${PIP_INDEX_URL:+--index-url "$PIP_INDEX_URL"} -r /tmp/requirements-cpu.txt
COPY . /src
# Where /ccache is mounted, a second build compiles what changed. What of libtorch runs goes to /runtime, under the same paths.
RUN CCACHE_DIR=/ccache cmake -S /src -B /build -G Ninja -DLONGHAUL_CUDA=OFF -DLONGHAUL_BUILD_TESTS=OFF -DLONGHAUL_VENV=/opt/longhaul \
 && CCACHE_DIR=/ccache cmake --build /build -j "${JOBS:-$(nproc)}" --target longhaul-worker longhaul-rank longhaul-lm longhaul-sentencepiece \
 && strip /build/bin/longhaul-worker /build/bin/longhaul-rank /build/bin/longhaul-lm /build/bin/longhaul-sentencepiece \
 && /src/deploy/images/tokenizers.sh /opt/longhaul/bin/pip /runtime \
 && cd /opt/longhaul/lib/python3.11/site-packages \
 && install -D -t /runtime$PWD/torch/lib torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/lib/libgomp.so.1 \
 && install -D -t /runtime$PWD/nvidia/cu13/lib nvidia/cu13/lib/libcudart.so.13 nvidia/cu13/lib/libcupti.so.13

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
COPY deploy/images/healthcheck /usr/local/bin/healthcheck
LABEL org.opencontainers.image.title="longhaul-worker" \
      org.opencontainers.image.description="The agent of a pool's node, and its ranks, for CPUs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT"
# A worker writes inner state (LONGHAUL_STATE_DIR=/state; default: none) and converted tokens (LONGHAUL_WORK_DIR; default: /tmp/longhaul-work, where
# /data is read-only): give both a volume. The root file system may be read-only. /data is where relative data paths of jobs begin.
# Its metrics want LONGHAUL_TOKENS, or LONGHAUL_INSECURE=true where the network is private.
ENV LONGHAUL_HTTP_LISTEN=0.0.0.0:7072 LONGHAUL_DATA_DIR=/data
WORKDIR /data
EXPOSE 7072
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["healthcheck"]
# tini as process 1 hands signals on (SIGTERM drains) and reaps.
ENTRYPOINT ["/usr/bin/tini", "--", "longhaul-worker"]
