"""Requests to a planner that runs."""

import http.client
import json


def ask(address, method, path, body=None, headers=None):
    """Status, body and headers of the answer, however long it takes."""
    connection = http.client.HTTPConnection(address)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


def post(address, path, body, headers=None):
    """Status and content of an answer in JSON or HTML."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, answer, given = ask(
        address,
        "POST",
        path,
        content,
        {"Content-Type": "application/json", **(headers or {})},
    )
    is_json = given["Content-Type"].startswith("application/json")
    return status, json.loads(answer) if is_json else answer.decode()
