"""ApiVersions (key 18): which APIs, and which versions of them, a broker offers. The first request on a connection.

* 1 adds the throttle time, 2 throttles after answering.
* 3 is flexible; the request names the client software, the answer carries the cluster's features (KIP-511, KIP-584).
* 4 lets a supported feature start at version 0.
* 5 says which broker of which cluster is meant: another one answers REBOOTSTRAP_REQUIRED (KIP-1242).

The response header stays at version 0 for ever, and a broker that does not know the version asked for answers error 35
in version 0: the client can read the answer before it knows what the broker speaks (KIP-511).
"""

from __future__ import annotations

from kwire.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    field,
)


class ApiVersionsRequest(Request["ApiVersionsResponse"], key=18, versions="0-5", flexible="3+"):
    """Who is asking, and whom."""

    client_software_name: String = field("3+", default="", ignorable=True)
    client_software_version: String = field("3+", default="", ignorable=True)
    cluster_id: NullableString = field("5+", default=None, ignorable=True)
    node_id: Int32 = field("5+", default=-1, ignorable=True)


class ApiVersion(Structure):
    """One API and its versions."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Structure):
    """A feature the broker could use (KIP-584)."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Structure):
    """A feature the cluster has agreed on (KIP-584)."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Response, to=ApiVersionsRequest, flexible_header=False):
    """What the broker offers."""

    error_code: Int16 = 0
    api_keys: Array[ApiVersion] = field(default=[])
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    supported_features: Array[SupportedFeatureKey] = field("3+", default=[], tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1, ignorable=True)
    finalized_features: Array[FinalizedFeatureKey] = field("3+", default=[], tag=2, ignorable=True)
    zk_migration_ready: Bool = field("3+", default=False, tag=3, ignorable=True)
