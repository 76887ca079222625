"""The sending side: devices, gateways, the formats of signed plans, and simulations of all."""
