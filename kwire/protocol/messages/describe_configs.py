"""DescribeConfigs (key 32): settings of topics, brokers and other resources (KIP-133).

* 1 adds where a value comes from, and what it would be otherwise (KIP-226); 2 throttles after answering.
* 3 adds the type and the documentation (KIP-569); 4 is flexible.
"""

from __future__ import annotations

from kwire.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    field,
)


class DescribeConfigsResource(Structure):
    """A resource and the settings to show; None for all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: NullableArray[String] = field(default=[])


class DescribeConfigsRequest(Request["DescribeConfigsResponse"], key=32, versions="1-4", flexible="4+"):
    """The resources to describe."""

    resources: Array[DescribeConfigsResource] = field(default=[])
    include_synonyms: Bool = False
    include_documentation: Bool = field("3+", default=False)


class DescribeConfigsSynonym(Structure):
    """A value that would hold if those before it were not set."""

    name: String = ""
    value: NullableString = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Structure):
    """One setting."""

    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: Array[DescribeConfigsSynonym] = field(default=[])
    config_type: Int8 = field("3+", default=0, ignorable=True)
    documentation: NullableString = field("3+", default="", ignorable=True)


class DescribeConfigsResult(Structure):
    """A resource and its settings."""

    error_code: Int16 = 0
    error_message: NullableString = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[DescribeConfigsResourceResult] = field(default=[])


class DescribeConfigsResponse(Response, to=DescribeConfigsRequest):
    """The settings of each resource."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult] = field(default=[])
