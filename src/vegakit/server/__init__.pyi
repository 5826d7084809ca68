from vegakit.server.acp import serve_acp as serve_acp
from vegakit.server.agents import RuntimeAgents as RuntimeAgents
from vegakit.server.asgi import AsgiScope as AsgiScope
from vegakit.server.code_mcp import serve_code_mcp as serve_code_mcp
from vegakit.server.code_sessions import CodePlan as CodePlan, CodeSessions as CodeSessions
from vegakit.server.grpc_door import (
    GrpcDoor as GrpcDoor,
    GrpcLimits as GrpcLimits,
    GrpcTls as GrpcTls,
    serve_grpc as serve_grpc,
)
from vegakit.server.kernel_app import HttpLimits as HttpLimits, KernelApp as KernelApp
from vegakit.server.mcp import check_installed as check_installed, serve_stdio as serve_stdio
from vegakit.server.mcp_http import (
    Address as Address,
    address_of as address_of,
    read_or_create_token as read_or_create_token,
    serve_http as serve_http,
)
from vegakit.server.operations import Operations as Operations
from vegakit.server.policy import ServerPolicy as ServerPolicy
from vegakit.server.router import RouterLimits as RouterLimits, vega_router as vega_router
from vegakit.server.serve import (
    DOORS as DOORS,
    OpenedServer as OpenedServer,
    ServerPlan as ServerPlan,
    TlsFiles as TlsFiles,
    check_plan as check_plan,
    run_server as run_server,
)
from vegakit.server.tokens import (
    ROLES as ROLES,
    Identity as Identity,
    TokenRecord as TokenRecord,
    TokenRole as TokenRole,
    Tokens as Tokens,
)
