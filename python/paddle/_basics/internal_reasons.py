def reason(module, name):
    return None
