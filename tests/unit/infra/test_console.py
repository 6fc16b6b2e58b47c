"""Resources of the parameter `Console`: a private bucket, a role that reads it, and two routes without authentication."""

from __future__ import annotations

import json

import pytest

from noetl_console.server import CSP, HEADERS
from tests.unit.infra.translated import deployed, of_type, source

POOL = "https://people.auth.us-east-1.amazoncognito.com"
ON = {
    "Console": "yes",
    "ApiAuth": "JWT",
    "UserPoolArn": "arn:aws:cognito-idp:us-east-1:123456789012:userpool/us-east-1_abc",
    "ConsoleSignIn": POOL,
    "ConsoleClientId": "1abc",
}
PAGES, SETTINGS = "/console/{proxy+}", "/console/settings.json"


def test_the_template_has_no_console_by_default() -> None:
    assert not [name for name in deployed() if "Console" in name]
    (api,) = of_type("AWS::ApiGateway::RestApi").values()
    assert not [path for path in api["Body"]["paths"] if "console" in path]
    assert "MinimumCompressionSize" not in api


def test_the_console_adds_only_its_two_routes_to_the_api() -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi", **ON).values()
    (without,) = of_type("AWS::ApiGateway::RestApi", **{**ON, "Console": "no"}).values()
    paths = api["Body"]["paths"]
    assert set(paths) - set(without["Body"]["paths"]) == {PAGES, SETTINGS}
    assert {path: paths[path] for path in without["Body"]["paths"]} == without["Body"]["paths"]
    for path in (PAGES, SETTINGS):
        assert [m for m in paths[path] if m != "options"] == ["get"]
        assert paths[path]["get"]["security"] == []


def test_the_role_reads_files_of_the_bucket_and_does_nothing_else() -> None:
    role = of_type("AWS::IAM::Role", **ON)["ConsoleRole"]
    (who,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert who["Principal"] == {"Service": "apigateway.amazonaws.com"}
    (policy,) = role["Policies"]
    assert policy["PolicyDocument"]["Statement"] == [
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "${ConsoleBucket.Arn}/*"}
    ]
    assert "ManagedPolicyArns" not in role


def test_the_bucket_is_private_encrypted_and_reached_by_tls_only() -> None:
    bucket = of_type("AWS::S3::Bucket", **ON)["ConsoleBucket"]
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["BucketEncryption"]
    (statement,) = of_type("AWS::S3::BucketPolicy", **ON)["ConsoleBucketPolicy"]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


@pytest.mark.parametrize(("sign_in", "connect"), [(POOL, f"'self' {POOL}"), ("", "'self' ")])
def test_the_gateway_sends_the_headers_of_the_local_server(sign_in: str, connect: str) -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi", **{**ON, "ConsoleSignIn": sign_in}).values()
    get = api["Body"]["paths"][PAGES]["get"]
    answers = get["x-amazon-apigateway-integration"]["responses"]
    prefix = "method.response.header."
    sent = {n.removeprefix(prefix): v for n, v in answers["200"]["responseParameters"].items()}
    assert sent.pop("Content-Security-Policy") == "'" + CSP.replace("connect-src 'self'", f"connect-src {connect}") + "'"
    assert {name: sent[name] for name in HEADERS if name in sent} == {
        name: f"'{value}'" for name, value in HEADERS.items() if name != "Content-Security-Policy"
    }
    policy = answers["200"]["responseParameters"][f"{prefix}Content-Security-Policy"]
    assert policy.strip("'") == policy[1:-1], "LocalStack takes every quote at the ends for its own"
    for answer in answers.values():
        declared = get["responses"][answer["statusCode"]]["headers"]
        assert {n.removeprefix(prefix) for n in answer["responseParameters"]} <= set(declared)


def test_the_settings_of_the_pages_hold_no_secret() -> None:
    (api,) = of_type("AWS::ApiGateway::RestApi", **ON).values()
    response = api["Body"]["paths"][SETTINGS]["get"]["x-amazon-apigateway-integration"]["responses"]["default"]
    assert json.loads(response["responseTemplates"]["application/json"]) == {
        "auth": "JWT",
        "sign_in": POOL,
        "client_id": "1abc",
        "scope": "noetl/groups",
    }


def test_iam_signatures_are_not_for_pages() -> None:
    rules = source()["Rules"]
    (asserted,) = rules["ConsolesNeedTokens"]["Assertions"]
    assert asserted["Assert"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "ApiAuth"}, "IAM"]}]}
    assert rules["ConsolesNeedTokens"]["RuleCondition"] == {"Fn::Equals": [{"Ref": "Console"}, "yes"]}
