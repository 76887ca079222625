# Another base: docker build --build-arg PYTHON_IMAGE=...; it needs `python` with venv.
ARG PYTHON_IMAGE=python:3.12-slim

# Build: a wheel and the locked dependencies, in an environment that is copied as a whole. The tools
# that build are locked too and stay here: what runs has no pip.
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python -m venv /opt/build && python -m venv --without-pip /opt/calmstream
COPY requirements.lock requirements-build.lock ./
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement requirements-build.lock && \
    /opt/build/bin/pip --python /opt/calmstream/bin/python install --no-cache-dir --no-compile \
        --require-hashes --requirement requirements.lock
ARG SOURCE_DATE_EPOCH=315532800
COPY pyproject.toml README.md LICENSE ./
COPY estimators estimators
COPY common common
COPY broker broker
COPY producer producer
COPY consumer consumer
COPY calmstream calmstream
# The wheel and compiled files name no time of the build, so that two builds are equal. A link, so
# that nobody has to know the version of Python to name the example data.
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . && \
    /opt/build/bin/pip --python /opt/calmstream/bin/python install --no-deps --no-compile /wheels/*.whl && \
    /opt/calmstream/bin/python -m compileall -qq --invalidation-mode unchecked-hash /opt/calmstream/lib && \
    cd /opt/calmstream && ln -s lib/python3.*/site-packages/calmstream/data data

# Run: no compiler, no pip, no root; to write there is /tmp, and a place for a volume.
FROM ${PYTHON_IMAGE}
RUN echo 'calmstream:x:10001:10001::/nonexistent:/usr/sbin/nologin' >>/etc/passwd && \
    echo 'calmstream:x:10001:' >>/etc/group && \
    install --directory --owner 10001 /var/lib/calmstream
ENV PATH=/opt/calmstream/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    CALMSTREAM_HTTP_HOST=0.0.0.0
USER 10001
EXPOSE 9464 8080 8090
# As `calmstream health`, without starting Python.
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/localhost/${CALMSTREAM_HTTP_PORT:-9464}; printf 'GET /livez HTTP/1.0\\r\\n\\r\\n' >&3; read -r _ status _ <&3; [ \"$status\" = 200 ]"]
ENTRYPOINT ["calmstream"]
CMD ["consume", "--plan", "/etc/calmstream/plan.json", "--role", "all"]

COPY --from=build /opt/calmstream /opt/calmstream
