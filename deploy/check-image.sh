#!/usr/bin/env bash
# Check the image without Docker: install the locked dependencies and the package, from exactly the
# files that the Dockerfile copies, into /opt/calmstream of a mount namespace with a read-only root,
# and run it as the image's user without privileges. Needs root on Linux; with a broker it also runs
# the service:
#
#   deploy/check-image.sh [HOST:PORT]
#
# PYTHON names the interpreter (/usr/bin/python3); other users must be able to run it.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
if [ "${CHECK_IMAGE_INSIDE:-}" = "" ]; then
    CHECK_IMAGE_INSIDE=1 exec unshare --mount "$0" "$@"
fi
python=${PYTHON:-/usr/bin/python3}
bootstrap=${1:-}
user=(setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all
    env -i PATH=/opt/calmstream/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 CALMSTREAM_HTTP_HOST=0.0.0.0)

echo "== install"
mount -t tmpfs -o mode=755 tmpfs /opt
mkdir /opt/src
mapfile -t copied < <(sed -n 's/^COPY \([^-].*\) [^ ]*$/\1/p' "$here/Dockerfile" | tr ' ' '\n')
git -C "$here" archive HEAD "${copied[@]}" | tar --extract --directory /opt/src
"$python" -m venv /opt/build
"$python" -m venv --without-pip /opt/calmstream
pip=(/opt/build/bin/pip --quiet --disable-pip-version-check --no-cache-dir)
into=(--python /opt/calmstream/bin/python)
"${pip[@]}" install --require-hashes --requirement /opt/src/requirements-build.lock
"${pip[@]}" "${into[@]}" install --require-hashes --requirement /opt/src/requirements.lock
"${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels /opt/src
"${pip[@]}" "${into[@]}" install --no-deps /opt/wheels/*.whl
rm -rf /opt/build /opt/wheels
rm -rf /opt/src
du -sh /opt/calmstream

echo "== as user 10001, read-only root"
mount -o remount,ro,bind /
mount -o remount,ro /opt
mount -t tmpfs -o mode=000 tmpfs "$here" # hide the checkout
cd /
mount -t tmpfs -o mode=1777 tmpfs /tmp
"${user[@]}" sh -c 'id -u; ! touch /opt/calmstream/x 2>/dev/null; ! touch /etc/x 2>/dev/null'
"${user[@]}" calmstream --version
"${user[@]}" python -c 'import psycopg, pyarrow.parquet, starlette'
data=$("${user[@]}" python -c 'import calmstream.data as d; print(d.__path__[0])')/adult.csv.gz
"${user[@]}" calmstream plan "$data" --columns sex,income --epsilon 2 --users 1000 --k 2 \
    --window 5s --grace 1s --skew 1s --lifetime 10m --name image-check --out /tmp/plan.json >/dev/null
if [ -z "$bootstrap" ]; then
    echo "no broker given: the service was not started"
    exit 0
fi
where=(--plan /tmp/plan.json --bootstrap "$bootstrap")
"${user[@]}" calmstream topics "${where[@]}"
"${user[@]}" CALMSTREAM_HTTP_PORT=19464 calmstream consume "${where[@]}" --role all \
    >/tmp/log 2>&1 &
service=$!
trap 'kill -9 $service 2>/dev/null || true' EXIT
"${user[@]}" calmstream produce "${where[@]}" --records "$data" --rate 3000 2>/dev/null
"${user[@]}" CALMSTREAM_HTTP_PORT=19464 calmstream health && echo healthy
"${user[@]}" calmstream export "${where[@]}" --kind final --marginal sex,income | head -3
"${user[@]}" calmstream sink "${where[@]}" --to parquet:/tmp/results --once
kill -TERM "$service"
status=0
wait "$service" || status=$?
echo "exit code after SIGTERM: $status"
tail -1 /tmp/log
exit "$status"
