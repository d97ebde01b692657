"""Asks a shard-read server as a strange client of gRPC does: by reflection, without our .proto file.

  client.py HOST:PORT TOKEN OWNER    an owner that has a row, as APP/REGION/TYPE/ID
"""
import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SCHEMA = "storage-owners-1"
DEADLINE = 20  # seconds


def method(channel, pool):
    """The method of the service, as reflection describes it: a function from a request to a reply, and the class of requests."""
    described = pool.FindServiceByName("shard_read.v1.ShardRead").methods_by_name["Get"]
    request, reply = (message_factory.GetMessageClass(message) for message in (described.input_type, described.output_type))
    call = channel.unary_unary(
        f"/{described.containing_service.full_name}/{described.name}",
        request_serializer=request.SerializeToString,
        response_deserializer=reply.FromString,
    )
    return call, request


def main(address, token, owner):
    metadata = [("authorization", f"Bearer {token}")]
    with grpc.insecure_channel(address) as channel:
        reflection = ProtoReflectionDescriptorDatabase(channel)
        services = set(reflection.get_services())
        assert {"shard_read.v1.ShardRead", "grpc.health.v1.Health"} <= services, services
        pool = descriptor_pool.DescriptorPool(reflection)
        get, request = method(channel, pool)

        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=SCHEMA), timeout=DEADLINE)
        assert health.status == health_pb2.HealthCheckResponse.SERVING, health

        shard = get(request(schema=SCHEMA), metadata=metadata, timeout=DEADLINE).shard
        assert shard.HasField("range") and shard.dc == "a" and shard.plan == 1, shard

        keys = ["\0".join(name).encode() for name in (owner.split("/", 3), ("no", "such", "owner", "here"))]
        reply = get(request(schema=SCHEMA, keys=keys), metadata=metadata, timeout=DEADLINE)
        assert reply.all_matched and len(reply.entries) == 2, reply
        landed = message_factory.GetMessageClass(pool.FindMessageTypeByName("shard_read.v1.LandedOwner"))
        found = landed.FromString(reply.entries[0].value)
        assert found.version > 0 and found.fields, found
        assert reply.entries[1].value == b"", reply

        for wrong, code in (
            (dict(request=request(schema="words-9"), metadata=metadata), grpc.StatusCode.INVALID_ARGUMENT),
            (dict(request=request(schema=SCHEMA), metadata=[]), grpc.StatusCode.UNAUTHENTICATED),
        ):
            try:
                get(**wrong, timeout=DEADLINE)
            except grpc.RpcError as error:
                assert error.code() == code, error
            else:
                raise AssertionError(f"{code} was expected")
    print(f"{owner}: version {found.version}, {len(found.fields)} fields")


main(*sys.argv[1:])
