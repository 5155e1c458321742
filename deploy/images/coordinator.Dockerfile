# longhaul-coordinator, and the CLI beside it: no torch, no CUDA. Built by deploy/images/build.sh, or from the root of the tree:
#   docker build -f deploy/images/coordinator.Dockerfile -t longhaul-coordinator .
# BASE is any Debian 12; DEBIAN_MIRROR a mirror of its packages, if not the one that BASE names.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
ARG DEBIAN_MIRROR=
ARG JOBS=
COPY deploy/packages.txt deploy/images/install.sh /tmp/
RUN sh /tmp/install.sh /tmp/packages.txt
COPY . /src
# Where /ccache is mounted, a second build compiles what changed.
RUN CCACHE_DIR=/ccache cmake -S /src -B /build -G Ninja -DLONGHAUL_WORKER=OFF \
 && CCACHE_DIR=/ccache cmake --build /build -j "${JOBS:-$(nproc)}" --target longhaul-coordinator longhaul longhaul-sentencepiece \
 && strip /build/bin/longhaul-coordinator /build/bin/longhaul /build/bin/longhaul-sentencepiece

FROM ${BASE}
ARG DEBIAN_MIRROR=
ARG VERSION=unknown
ARG REVISION=unknown
COPY deploy/images/coordinator.packages deploy/images/install.sh /tmp/
RUN sh /tmp/install.sh /tmp/coordinator.packages && rm /tmp/* \
 && groupadd --system --gid 10001 longhaul \
 && useradd --system --uid 10001 --gid longhaul --home-dir /var/lib/longhaul --shell /usr/sbin/nologin longhaul \
 && install -d -o longhaul -g root -m 0770 /var/lib/longhaul
COPY --from=build /build/bin/longhaul-coordinator /build/bin/longhaul /build/bin/longhaul-sentencepiece /usr/local/bin/
COPY deploy/images/healthcheck /usr/local/bin/healthcheck
LABEL org.opencontainers.image.title="longhaul-coordinator" \
      org.opencontainers.image.description="Decides, averages and stores: the service that pools of workers exchange fragments through" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT"
# Nothing but the volume is written: the root file system may be read-only. Beyond localhost the coordinator wants
# TLS (LONGHAUL_TLS_CA, _CERTIFICATE, _KEY) and LONGHAUL_TOKENS, or LONGHAUL_INSECURE=true, and says so.
ENV LONGHAUL_LISTEN=0.0.0.0:7070 LONGHAUL_HTTP_LISTEN=0.0.0.0:7071 LONGHAUL_DATA_DIR=/var/lib/longhaul
WORKDIR /var/lib/longhaul
VOLUME /var/lib/longhaul
EXPOSE 7070 7071
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["healthcheck"]
# tini as process 1 hands signals on and reaps.
ENTRYPOINT ["/usr/bin/tini", "--", "longhaul-coordinator"]
