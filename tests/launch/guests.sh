# Sourced behind common.sh by tests of the coordination service: GUEST is a client's program, guest.py.
PYTHON=/usr/bin/python3 # which has grpcio
"$PYTHON" -c 'import grpc, google.protobuf' 2> /dev/null || skip "there is no python3-grpcio"
protoc -I"$TOP/src" --python_out="$TMPDIR" "$TOP/src/rpc/xla_coordination.proto" || fail "protoc"
export PYTHONPATH=$TMPDIR PYTHONDONTWRITEBYTECODE=1
unset http_proxy https_proxy grpc_proxy no_grpc_proxy
GUEST=$TMPDIR/guest # one word, wherever we lie
cat > "$GUEST" <<EOS
#!/bin/sh
exec "$PYTHON" "$TOP/tests/launch/guest.py" "\$@"
EOS
chmod +x "$GUEST"

# The process listens at a port of its own choice, and keeps it until it is killed: $HOG, $PORT.
hog_port()
{
    "$PYTHON" -c 'import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(600)' > "$TMPDIR/port" &
    HOG=$!
    await "a port is taken" test -s "$TMPDIR/port"
    PORT=$(cat "$TMPDIR/port")
}
