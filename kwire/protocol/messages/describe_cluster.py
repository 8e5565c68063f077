"""DescribeCluster (key 60): the brokers of a cluster, and what one may do with it (KIP-700).

* 1 can ask a controller (KIP-919); 2 can list fenced brokers (KIP-1073).
"""

from __future__ import annotations

from kwire.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    field,
)


class DescribeClusterRequest(Request["DescribeClusterResponse"], key=60, versions="0-2", flexible="0+"):
    """What to describe."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+", default=False)


class DescribeClusterBroker(Structure):
    """A broker and where it listens."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Bool = field("2+", default=False)


class DescribeClusterResponse(Response, to=DescribeClusterRequest):
    """The cluster and its brokers."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker] = field(default=[])
    cluster_authorized_operations: Int32 = -2147483648  # not asked for
