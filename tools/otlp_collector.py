"""A collector of OTLP over HTTP for tests: decodes each request with the official messages and prints it as a line of JSON.

Arguments: the status of all answers, and the seconds before each of them. The first line is the port.
"""

import http.server
import json
import sys
import threading
import time

from google.protobuf.json_format import MessageToDict
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

MESSAGES = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}
STATUS, DELAY = int(sys.argv[1]), float(sys.argv[2])
PRINTING = threading.Lock()


def unknown_fields(message):
    """Fields that the official messages do not have, at any depth."""
    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            parts = [value] if hasattr(value, "ListFields") else value
            count += sum(unknown_fields(part) for part in parts)
    return count


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        seen = {"path": self.path, "headers": {name.lower(): value for name, value in self.headers.items()}}
        seen["raw"] = body.decode("latin-1")
        try:
            message = MESSAGES[self.path]()
            message.ParseFromString(body)
            seen["message"] = MessageToDict(message)
            seen["unknown_fields"] = unknown_fields(message)
        except Exception as error:
            seen["problem"] = repr(error)
        with PRINTING:
            print(json.dumps(seen), flush=True)
        time.sleep(DELAY)
        self.send_response(STATUS)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
# Ends with the test, which holds the other end of standard input.
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
