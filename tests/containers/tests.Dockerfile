# The test suite on another version of Python, as a user without rights; see tests/README.md.
# tests/containers/images.sh builds it from the committed files.
ARG BASE=calmstream-base:3.13
FROM ${BASE}
RUN apt-get update && \
    apt-get install --yes --no-install-recommends git prometheus && \
    rm -rf /var/lib/apt/lists/*
RUN useradd --create-home tester && install --directory --owner tester /src
USER tester
WORKDIR /src
ENV PATH=/home/tester/venv/bin:$PATH
COPY --chown=tester src .
RUN python -m venv /home/tester/venv && \
    pip install --quiet --no-cache-dir --upgrade 'pip>=25.1' && \
    pip install --quiet --no-cache-dir --editable '.[gateway,serve]' --group dev
CMD ["python", "-m", "pytest", "-q", "-m", "not kafka and not slow", "--numprocesses", "2", \
     "--dist", "loadfile", "--no-loadscope-reorder"]
